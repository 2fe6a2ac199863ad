package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const changing = `
sources:
  a: {type: postgres, url: "postgres://db/a"}
  b: {type: postgres, url: "postgres://db/b"}
destinations:
  x: {type: http, url: "https://x.example"}
  y: {type: http, url: "https://y.example"}
  z: {type: http, url: "https://z.example"}
routes:
  one: {from: a, to: x}
  two: {from: a, to: y}
  three: {from: b, to: z}
`

// What differs between two configurations is named, or too much for a relay that goes on.
func TestChangesSinceAFormerConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	secured := strings.Replace(changing, `z: {type: http, url: "https://z.example"}`, fmt.Sprintf(`z: {type: http, url: "https://z.example", tls: {ca_file: %q}}`, file), 1)
	none := map[string]Poll{}
	for name, tt := range map[string]struct {
		from    string // default: changing
		replace []string
		want    *Changes // nil: too much, or nothing
	}{
		"nothing":                 {},
		"the order of lines":      {replace: []string{"  one: {from: a, to: x}\n  two: {from: a, to: y}\n", "  two: {from: a, to: y}\n  one: {from: a, to: x}\n"}},
		"middleware of a route":   {replace: []string{"{from: a, to: x}", "{from: a, to: x, middleware: [poison, {retry: {attempts: 3}}, timeout]}"}, want: &Changes{Polls: none, Routes: []string{"one"}, Sources: []string{"a"}}},
		"a destination":           {replace: []string{"https://y.example", "https://other.example"}, want: &Changes{Polls: none, Routes: []string{"two"}, Sources: []string{"a"}}},
		"a poison destination":    {from: strings.Replace(changing, "{from: a, to: x}", "{from: a, to: x, middleware: [{poison: {to: y}}]}", 1), replace: []string{"https://y.example", "https://other.example"}, want: &Changes{Polls: none, Routes: []string{"one", "two"}, Sources: []string{"a"}}},
		"a new route":             {replace: []string{"  three:", "  four: {from: b, to: x}\n  three:"}, want: &Changes{Polls: none, Routes: []string{"four"}, Sources: []string{"b"}}},
		"a route to another one":  {replace: []string{"two: {from: a, to: y}", "two: {from: a, to: x}", `  y: {type: http, url: "https://y.example"}` + "\n", ""}, want: &Changes{Polls: none, Routes: []string{"two"}, Sources: []string{"a"}}},
		"a route less":            {replace: []string{"  two: {from: a, to: y}\n", "", `  y: {type: http, url: "https://y.example"}` + "\n", ""}, want: &Changes{Polls: none, Gone: []string{"two"}, Sources: []string{"a"}}},
		"another name":            {replace: []string{"two:", "zwei:"}, want: &Changes{Polls: none, Routes: []string{"zwei"}, Gone: []string{"two"}, Sources: []string{"a"}}},
		"a poll":                  {replace: []string{`"postgres://db/a"`, `"postgres://db/a", poll: {max: 5s}`}, want: &Changes{Polls: map[string]Poll{"a": {5000, Duration(1e6), 3, 2, Duration(5e9)}}}},
		"a source of a route":     {replace: []string{"{from: a, to: y}", "{from: b, to: y}"}, want: &Changes{Polls: none, Routes: []string{"two"}, Sources: []string{"a", "b"}}},
		"the last of a source":    {replace: []string{"  three: {from: b, to: z}\n", "", `  b: {type: postgres, url: "postgres://db/b"}` + "\n", "", `  z: {type: http, url: "https://z.example"}` + "\n", ""}},
		"all of a source, to one": {replace: []string{"three: {from: b, to: z}", "three: {from: a, to: z}", `  b: {type: postgres, url: "postgres://db/b"}` + "\n", ""}},
		"all routes":              {replace: []string{"x.example", "x2.example", "y.example", "y2.example", "z.example", "z2.example"}},
		"a source":                {replace: []string{"postgres://db/b", "postgres://other/b"}},
		"the memory":              {replace: []string{"sources:", "memory: 32MiB\nsources:"}},
		"the first traced route":  {replace: []string{"{from: a, to: x}", "{from: a, to: x, middleware: {add: [tracing]}}"}},
	} {
		t.Run(name, func(t *testing.T) {
			from := tt.from
			if from == "" {
				from = changing
			}
			got, ok := parsed(t, strings.NewReplacer(tt.replace...).Replace(from)).Since(parsed(t, from))
			if ok != (tt.want != nil) {
				t.Fatalf("%+v, %v", got, ok)
			}
			if ok && !reflect.DeepEqual(&got, tt.want) {
				t.Errorf("got %+v, want %+v", got, *tt.want)
			}
		})
	}

	// A file that a section names is part of it, whatever else changes.
	former := parsed(t, secured)
	if got, ok := former.Since(parsed(t, changing)); !ok || len(got.Routes) != 1 {
		t.Errorf("with a certificate of its own: %+v, %v", got, ok)
	}
	other := strings.Replace(secured, "https://x.example", "https://x2.example", 1)
	if _, ok := parsed(t, other).Since(former); !ok {
		t.Error("with the same certificate")
	}
	write("second")
	if _, ok := parsed(t, other).Since(former); ok {
		t.Error("with another certificate")
	}
}

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
