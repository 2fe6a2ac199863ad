package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse feeds anything to the parser: it must not panic, a configuration
// comes without an error, and errors are inside of the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "example.yaml") {
		f.Add(read(f, file))
	}
	f.Fuzz(func(t *testing.T, src string) {
		cfg, err := Parse("fuzz.yaml", []byte(src), testEnv)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", cfg, err)
		}
		var list *Errors
		if err != nil && !errors.As(err, &list) {
			t.Fatalf("not *Errors: %v", err)
		}
		if list != nil {
			checkPositions(t, strings.ToValidUTF8(src, "\uFFFD"), list)
			return
		}
		if cfg.Redacted() == "" {
			t.Error("prints nothing")
		}
	})
}
