package foreign

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Writer writes lines of YAML.
type Writer struct {
	file *File
	b    strings.Builder
}

// NewWriter returns a writer of the result.
func (f *File) NewWriter() *Writer { return &Writer{file: f} }

// String returns what was written.
func (w *Writer) String() string { return w.b.String() }

// Line writes a line.
func (w *Writer) Line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// Typed writes a value that is converted, with its origin, and returns it; see [File.Typed].
func (w *Writer) Typed(name, key, def, sample string, convert func(string) (string, error)) string {
	text, isDefault := w.file.Typed(key, def, sample, convert)
	w.Line("%s: %s # %s%s", name, text, key, ifDefault(isDefault))
	return text
}

// Text writes a name, with its origin.
func (w *Writer) Text(name, key, def string) {
	s, ok := w.file.Own(key)
	value := def
	if ok {
		value = w.file.Join(s, def)
	}
	w.Line("%s: %s # %s%s", name, Quoted(value), key, ifDefault(!ok))
}

func ifDefault(is bool) string {
	if is {
		return ", default"
	}
	return ""
}

// Quoted writes text as a YAML scalar of one line. Variables are written plainly: their insides are Outrider's.
func Quoted(text string) string {
	if strings.HasPrefix(text, "${") && strings.Count(text, "}") == 1 && strings.HasSuffix(text, "}") {
		return text
	}
	b, err := yaml.MarshalWithOptions(text, yaml.JSON())
	if err != nil {
		return `""` // a string can always be written
	}
	return strings.TrimSpace(string(b))
}
