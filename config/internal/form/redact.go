package form

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_/.][A-Za-z0-9_/.-]*$`)

// Redact writes a configuration, given as a pointer, as YAML in the form of the file, with its defaults and every
// secret as ***.
func Redact(cfg any) string {
	var w redacter
	w.structure(reflect.ValueOf(cfg).Elem(), 0)
	return w.out.String()
}

// redacter writes YAML that shows no secrets.
type redacter struct{ out strings.Builder }

func (r *redacter) line(depth int, format string, args ...any) {
	r.out.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&r.out, format, args...)
	r.out.WriteByte('\n')
}

// structure writes the fields that are set.
func (r *redacter) structure(v reflect.Value, depth int) {
	all, _ := parts(v)
	for _, p := range all {
		r.value(p.name, p.value, depth)
	}
}

// value writes one key with its value, unless it is empty.
func (r *redacter) value(key string, v reflect.Value, depth int) {
	if text, ok := scalarText(v); ok {
		if text != "" {
			r.line(depth, "%s: %s", key, text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			r.value(key, v.Elem(), depth)
		}
	case reflect.Struct:
		if v.IsZero() { // a section that has no meaning here
			return
		}
		var inner redacter
		inner.structure(v, depth+1)
		if inner.out.Len() > 0 {
			r.line(depth, "%s:", key)
			r.out.WriteString(inner.out.String())
		}
	case reflect.Map, reflect.Slice:
		r.collection(key, v, depth)
	}
}

func (r *redacter) collection(key string, v reflect.Value, depth int) {
	if v.Len() == 0 {
		if !v.IsNil() && v.Kind() == reflect.Slice {
			r.line(depth, "%s: []", key) // no middleware is not the default middleware
		}
		return
	}
	all, list := parts(v)
	if list && all[0].name == "" {
		texts := make([]string, len(all))
		for i, p := range all {
			texts[i], _ = scalarText(p.value)
		}
		r.line(depth, "%s: [%s]", key, strings.Join(texts, ", "))
		return
	}
	r.line(depth, "%s:", key)
	for _, p := range all {
		switch {
		case list: // of middleware
			r.line(depth+1, "- %s:", p.name)
			r.structure(p.value, depth+3)
		case p.kind != "":
			r.line(depth+1, "%s:", p.name)
			r.line(depth+2, "type: %s", p.kind)
			r.structure(p.value, depth+2)
		case v.Kind() == reflect.Slice:
			r.line(depth+1, "%s:", p.name)
			r.structure(p.value, depth+2)
		default:
			r.value(strconv.Quote(p.name), p.value, depth+1)
		}
	}
}

// scalarText writes a value that is one text; false when it is none. Strings
// are quoted where YAML could read something else.
func scalarText(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Interface {
		return "", false
	}
	if fm, ok := SpellingOf(v.Type()); ok {
		text := fmt.Sprint(v.Interface())
		if text == "" {
			return "", true
		}
		if fm.Secret {
			return strconv.Quote(text), true
		}
		return quoteYAML(maskURL(text)), true
	}
	switch v.Kind() {
	case reflect.String:
		if v.String() == "" {
			return "", true
		}
		return quoteYAML(maskURL(v.String())), true
	case reflect.Bool, reflect.Int, reflect.Float64:
		return fmt.Sprint(v.Interface()), true
	}
	return "", false
}

// quoteYAML quotes what is not a plain word, and doubles dollar signs so that
// none begins a variable.
func quoteYAML(text string) string {
	text = strings.ReplaceAll(text, "$", "$$")
	if plainWord.MatchString(text) && !numeric.MatchString(text) && text != "true" && text != "false" && text != "null" {
		return text
	}
	return strconv.Quote(text)
}
