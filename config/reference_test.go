package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

//go:generate go test . -run ^TestReferencePage$ -update

// reference returns docs/configuration.md: every key with its type, default
// and meaning, in Markdown.
func reference() string {
	w := &page{}
	w.text("# Configuration", "",
		"<!-- Written by `go generate ./config` from the structs of package config. Do not edit. -->", "",
		"Outrider reads one YAML file. `outrider validate` checks it and reports all mistakes, each with its location and a fix;",
		"`outrider schema` prints its JSON Schema for editors.", "",
		"```yaml", strings.TrimRight(Example, "\n"), "```", "",
		introduction)
	w.section("##", "Top level", "", reflect.TypeFor[Config]())
	w.registry("##", "Sources", "Each entry of `sources` has a name and a `type`.", sources)
	w.registry("##", "Destinations", "Each entry of `destinations` has a name and a `type`.", destinations)
	w.section("##", "Routes", routesIntroduction, reflect.TypeFor[Route]())
	w.registry("##", "Middleware", middlewareIntroduction, middlewares)
	return strings.TrimRight(w.out.String(), "\n") + "\n"
}

const introduction = `## How values are written

- **Variables**: ` + "`${NAME}`" + ` anywhere in a value is the environment variable, ` + "`${NAME:-default}`" + ` has a
  default for a variable that is unset or empty, and ` + "`$$`" + ` is a dollar sign. A variable that is not set and has no default is an
  error. Values are inserted after the YAML is parsed, so they need no quoting.
- **Secrets**: a key marked *secret* can also be given as ` + "`KEY_file`" + `, the path of a file with the value; line
  ends at its end are removed. A map of secrets (` + "`headers`" + `) has a map of paths (` + "`headers_file`" + `). Messages, logs and
  printed configurations never show a secret.
- **Relative paths** start at the working directory.
- **duration**: ` + "`200ms`, `30s`, `1h30m`, `7d`" + `. **size**: ` + "`64MiB`" + ` (1024-based), ` + "`1MB`" + ` (1000-based).
  **rate**: ` + "`500/s`, `30/m`, `1000/h`" + `.
- **pattern**: must match the whole text. ` + "`*`" + ` matches any characters, including dots and none;
  all other characters match themselves: ` + "`order.*`" + ` matches ` + "`order.created` and `order.line.added`, not `order`" + `.
- **tag**: ` + "`KEY`" + ` (the message has the tag) or ` + "`KEY=VALUE`" + `.
- **template**: Go's text/template, rendered for each message with
  ` + "`" + TemplateFields + "`" + `; the last two are maps of strings: ` + "`{{.Tags.region}}`" + `,
  ` + "`" + `{{index .Headers "x-region"}}` + "`" + `. Functions: ` + "`lower`, `upper`, `replace OLD NEW TEXT`" + `. A message without a value for a
  placeholder is dead.
- YAML anchors and aliases work for whole values; merge keys (` + "`<<`" + `) and tags (` + "`!!str`" + `) do not.
`

const routesIntroduction = "Each entry of `routes` has a name of at most 48 characters (a-z, 0-9, _ and -)."

const middlewareIntroduction = "A list item is a name (`- retry`), a name with options (`- retry: {attempts: 5}`) or, for " +
	"some, a name with one value (`- timeout: 30s`, `- throttle: 500/s`). The outermost comes first; each kind can be used once.\n\n" +
	"A list replaces the default stack, and `validate` says what it leaves out. `middleware: {add: [dedupe: 24h]}` keeps the default and adds to it, each " +
	"kind at its place ([middleware.md](middleware.md#order)). `retry` and `poison` without keys have the values of the source's layout."

// page builds Markdown.
type page struct{ out strings.Builder }

func (p *page) text(lines ...string) {
	for _, line := range lines {
		p.out.WriteString(line + "\n")
	}
}

// registry writes a section with one subsection for each kind.
func (p *page) registry(level, title, doc string, r *form.Registry) {
	p.text(level+" "+title, "", doc, "")
	for _, k := range r.Kinds {
		p.section(level+"#", "`"+k.Zero.Kind()+"`", k.Doc, k.Type())
	}
}

// section writes the table of a struct's keys; those of structs inside are in
// the same table, with their path.
func (p *page) section(level, title, doc string, t reflect.Type) {
	p.text(level+" "+title, "")
	if doc != "" {
		p.text(doc, "")
	}
	var rows []string
	tableRows(t, "", &rows)
	if len(rows) == 0 {
		p.text("No options.", "")
		return
	}
	p.text("| key | type | default | meaning |", "|---|---|---|---|")
	p.text(rows...)
	p.text("")
}

func tableRows(t reflect.Type, prefix string, rows *[]string) {
	for _, f := range declaration.Fields(t) {
		if f.IsKey {
			continue
		}
		*rows = append(*rows, tableRow(f, prefix))
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if _, ok := form.SpellingOf(inner); !ok && inner.Kind() == reflect.Struct {
			tableRows(inner, prefix+f.Name+".", rows)
		}
	}
}

func tableRow(f form.Field, prefix string) string {
	def := ""
	switch {
	case f.Required:
		def = "required"
	case f.HasDefault:
		def = "`" + f.Default + "`"
	}
	doc := f.Doc
	if f.Enum != nil {
		doc += " One of `" + strings.Join(f.Enum, "`, `") + "`."
	}
	if bounds := boundsText(f); bounds != "" {
		doc += " " + bounds
	}
	return fmt.Sprintf("| `%s%s` | %s | %s | %s |", prefix, f.Name, typeText(f), def, doc)
}

// boundsText writes the bounds of a number, duration or size.
func boundsText(f form.Field) string {
	if f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map || f.Min == "" && f.Max == "" {
		return ""
	}
	f.HasDefault = false
	return "Allowed: " + form.RangeText(f) + "."
}

// typeText names the type of a key for people.
func typeText(f form.Field) string {
	if f.Lines {
		return "path"
	}
	t := f.Type
	switch {
	case f.Secret() && t.Kind() == reflect.Map:
		return "map of secret strings"
	case f.Secret():
		return "secret " + formName(t)
	case declaration.Registry(elem(t)) != nil && t.Kind() == reflect.Slice:
		return "list of middleware"
	case declaration.Registry(elem(t)) != nil || t == reflect.TypeFor[[]Route]():
		return "map"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + formName(t.Elem()) + "s"
	case reflect.Map:
		return "map of " + formName(t.Key()) + " to " + formName(t.Elem())
	}
	return formName(t)
}

func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

func formName(t reflect.Type) string {
	if fm, ok := form.SpellingOf(t); ok {
		return fm.Name
	}
	switch t.Kind() {
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Struct {
			return formName(t.Elem())
		}
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "mapping"
}
