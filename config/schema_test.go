package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outriderhq/outrider/config/internal/form"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("outrider.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("outrider.json")
	if err != nil {
		t.Fatal(err) // also when the schema is no valid schema of its draft
	}
	return s
}

// beyondSchema are the bad files that a schema accepts: what is wrong with
// them is about names, the order of things, files, variables or the inside of a text.
var beyondSchema = []string{
	"admin-listen", "admin-open", "admin-probes", "admin-probes-port", "alias-unknown", "brokers", "debezium", "drain-timeout", "duplicate-key", "duplicate-route", "hold-without-order", "kafka-once", "merge-key", "http-source", "http-url", "http-reserved-address",
	"http-url-host", "http-url-login", "middleware-twice", "min-max", "poison-inside-retry", "poison-to", "postgres-layout", "postgres-port", "postgres-url", "queue", "reference",
	"reference-variable", "route-expanded-name", "route-to-twice-names", "second-document", "secret-file",
	"secret-file-content", "secret-multi-line", "sqlite-table-schema", "mysql-leader-lock", "state-mysql", "state-mysql-port", "state-mysql-tls", "state-schema-sqlite", "state-schema-system", "state-url", "subscriber-fan-out", "subscriber-state", "telemetry",
	"template-broken", "template-field", "template-function", "template-range", "tls", "topic-name", "topic-template", "nats",
	"variable-unset", "variable-value", "watermill", "watermill-client", "webhook-secrets", "yaml-tag", "range-units", "claimless-twice", "progress-state", "debezium",
}

// TestSchemaAgrees compares schema and parser on all files of testdata.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "example.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		value, ok := asJSON(read(t, file))
		if !ok {
			continue // not even YAML
		}
		err := schema.Validate(value)
		wantError := filepath.Base(filepath.Dir(file)) == "bad" && !slices.Contains(beyondSchema, name)
		if (err != nil) != wantError {
			t.Errorf("%s: the schema says %v, the parser says error: %v", file, err, !wantError)
		}
	}
}

// asJSON reads YAML the way an editor does. Variables in flow style are not
// YAML, so they are put away as the parser does.
func asJSON(src string) (any, bool) {
	lines := strings.Split(src, "\n")
	for i, line := range lines {
		lines[i] = form.ShieldVariables(line)
	}
	data, err := yaml.YAMLToJSON([]byte(strings.Join(lines, "\n")))
	if err != nil {
		return nil, false
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(form.Unshield(string(data))))
	return value, err == nil
}

// TestSchemaDescribesEverything looks for keys without description.
func TestSchemaDescribesEverything(t *testing.T) {
	t.Parallel()
	var schema any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		for key, sub := range m {
			walk(path+"/"+key, sub)
		}
		properties, _ := m["properties"].(map[string]any)
		for key, p := range properties {
			p, _ := p.(map[string]any)
			if key != "type" && p["description"] == nil && p["const"] == nil && p["anyOf"] == nil {
				t.Errorf("%s/%s has no description", path, key)
			}
		}
	}
	walk("", schema)
}

// TestTagsAreRight makes sure that every default and bound in a tag can be
// read, and that every key is described.
func TestTagsAreRight(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	check := func(owner reflect.Type, f form.Field) {
		if f.Doc == "" && !f.IsKey {
			t.Errorf("%s.%s has no doc", owner, f.Name)
		}
		if f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map {
			return
		}
		for _, text := range []string{f.Default, f.Min, f.Max} {
			v := reflect.New(f.Type).Elem()
			ok := true
			if s, isScalar := reflect.TypeAssert[form.Scalar](v.Addr()); isScalar && text != "" {
				ok = s.Parse(text) == nil
			} else if text != "" {
				_, err := fmt.Sscan(text, v.Addr().Interface())
				ok = err == nil && (f.Enum == nil || slices.Contains(f.Enum, text))
			}
			if !ok {
				t.Errorf("%s.%s: %q cannot be read", owner, f.Name, text)
			}
		}
	}
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if r := declaration.Registry(typ); r != nil {
			for _, k := range r.Kinds {
				if k.Doc == "" {
					t.Errorf("%s has no doc", k.Zero.Kind())
				}
				walk(k.Type())
			}
			return
		}
		if _, ok := form.SpellingOf(typ); ok || typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for _, f := range declaration.Fields(typ) {
			check(typ, f)
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Config]())
}

// TestReferencePage fails when docs/configuration.md is not what the structs
// say; go generate ./config writes it.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	golden(t, "../docs/configuration.md", reference())
}
