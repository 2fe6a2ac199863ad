package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
)

// object is a piece of JSON Schema.
type object = map[string]any

// variable is the schema of a value that holds a variable: what it becomes is
// known when the configuration is loaded only.
const variable = `\$\{[^}]+\}|\$\$`

// Schema returns the JSON Schema (draft 2020-12) of the configuration file, for
// editors. It says what a schema can say: references between names, the order
// of middleware and the like are checked when a file is loaded.
func Schema() []byte {
	s := schemaMaker{defs: object{"variable": object{"type": "string", "pattern": variable}}}
	root := s.structure(reflect.TypeFor[Config](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Outrider configuration"
	root["$defs"] = s.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil // maps, lists, strings and numbers only: it cannot fail
	}
	return append(out, '\n')
}

// schemaMaker collects the schemas of kinds under $defs.
type schemaMaker struct{ defs object }

// structure is the schema of a mapping; kind is the value of its type key, if
// it has one.
func (s schemaMaker) structure(t reflect.Type, kind string) object {
	properties, required, rules := object{}, []string{}, []any{}
	if kind != "" {
		properties["type"] = object{"const": kind}
		required = append(required, "type")
	}
	for _, f := range fieldsOf(t) {
		if f.isKey {
			continue
		}
		properties[f.name] = s.field(f)
		switch {
		case f.secret() && f.typ.Kind() != reflect.Map:
			file := f.name + "_file"
			properties[file] = object{"type": "string", "description": "File that holds " + f.name + "."}
			rules = append(rules, object{"not": object{"required": []string{f.name, file}}})
			if f.required {
				rules = append(rules, object{"anyOf": []any{
					object{"required": []string{f.name}}, object{"required": []string{file}},
				}})
			}
		case f.secret():
			properties[f.name+"_file"] = object{
				"type": "object", "additionalProperties": object{"type": "string"},
				"description": "Files that hold values of " + f.name + ".",
			}
		case f.required:
			required = append(required, f.name)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	if len(rules) > 0 {
		out["allOf"] = rules
	}
	return out
}

// field is the schema of a key: that of its type, with description and default.
func (s schemaMaker) field(f field) object {
	out := s.value(f.typ, f)
	out["description"] = f.doc
	if f.hasDef {
		out["default"] = defaultValue(f)
	}
	return out
}

// value is the schema of a type within the bounds of a field.
func (s schemaMaker) value(t reflect.Type, f field) object {
	if fm, ok := formOf(t); ok {
		return textSchema(fm, f)
	}
	switch t.Kind() {
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Struct {
			return s.value(t.Elem(), f)
		}
		return orNull(s.structure(t.Elem(), ""))
	case reflect.Struct:
		return orNull(s.structure(t, ""))
	case reflect.Map:
		return s.mapping(t, f)
	case reflect.Slice:
		return s.list(t, f)
	case reflect.String:
		return textSchema(form{enum: f.enum}, f)
	case reflect.Bool:
		return orVariable(object{"type": "boolean"})
	case reflect.Int:
		return orVariable(bounded(object{"type": "integer"}, f))
	}
	return orVariable(bounded(object{"type": "number"}, f))
}

// textSchema is the schema of a text of some form.
func textSchema(fm form, f field) object {
	out := object{"type": "string"}
	if f.required {
		out["minLength"] = 1
	}
	if fm.example != "" {
		out["examples"] = []string{fm.example}
	}
	if fm.enum != nil {
		out["enum"] = fm.enum
		return orVariable(out)
	}
	if fm.pattern != "" {
		out["pattern"] = fm.pattern
		return orVariable(out)
	}
	return out
}

func orVariable(schema object) object {
	return object{"anyOf": []any{schema, object{"$ref": "#/$defs/variable"}}}
}

// orNull lets a section have no content.
func orNull(schema object) object {
	schema["type"] = []string{"object", "null"}
	return schema
}

func bounded(schema object, f field) object {
	for key, text := range map[string]string{"minimum": f.min, "maximum": f.max} {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			schema[key] = n
		}
	}
	return schema
}

func (s schemaMaker) mapping(t reflect.Type, f field) object {
	out := object{"type": "object"}
	if r, ok := registries[t.Elem()]; ok {
		out["additionalProperties"] = s.kinds(r)
		out["propertyNames"] = object{"pattern": routeName.String()}
	} else {
		out["additionalProperties"] = s.value(t.Elem(), field{required: true})
		if fm, ok := formOf(t.Key()); ok {
			out["propertyNames"] = object{"pattern": fm.pattern}
		}
	}
	if least, err := strconv.Atoi(f.min); err == nil {
		out["minProperties"] = least
	} else {
		out["type"] = []string{"object", "null"}
	}
	return out
}

// kinds is the schema of something whose other keys follow from its type.
func (s schemaMaker) kinds(r *registry) object {
	var rules []any
	for _, k := range r.kinds {
		name := r.what + "." + k.name
		def := s.structure(reflect.TypeOf(k.zero).Elem(), k.name)
		def["description"] = k.doc
		s.defs[name] = def
		rules = append(rules, object{
			"if":   object{"properties": object{"type": object{"const": k.name}}, "required": []string{"type"}},
			"then": object{"$ref": "#/$defs/" + name},
		})
	}
	return object{
		"type": "object", "required": []string{"type"},
		"properties": object{"type": object{"enum": r.names()}}, "allOf": rules,
	}
}

func (s schemaMaker) list(t reflect.Type, f field) object {
	if keyed(t) {
		return object{
			"type": "object", "minProperties": 1,
			"propertyNames":        object{"pattern": routeName.String()},
			"additionalProperties": s.structure(t.Elem(), ""),
		}
	}
	if f.lines {
		return object{"type": "string"}
	}
	out := object{"type": "array"}
	if r, ok := registries[t.Elem()]; ok {
		out["items"] = s.middleware(r)
	} else {
		out["items"] = s.value(t.Elem(), field{required: true})
	}
	if least, err := strconv.Atoi(f.min); err == nil {
		out["minItems"] = least
	}
	if registries[t.Elem()] != nil {
		return object{"anyOf": []any{out, object{
			"type": "object", "properties": object{addKey: out}, "required": []string{addKey}, "additionalProperties": false,
		}}}
	}
	if f.single {
		return object{"anyOf": []any{out["items"], out}}
	}
	return out
}

// middleware is the schema of a list item: a name, or a name with its options.
func (s schemaMaker) middleware(r *registry) object {
	properties, bare := object{}, []string{}
	for _, k := range r.kinds {
		t := reflect.TypeOf(k.zero).Elem()
		name := r.what + "." + k.name
		def := s.structure(t, "")
		if def["required"] == nil {
			def, bare = orNull(def), append(bare, k.name)
		}
		def["description"] = k.doc
		s.defs[name] = def
		options := []any{object{"$ref": "#/$defs/" + name}}
		if f, ok := scalarField(t); ok {
			options = append(options, s.value(f.typ, f))
		}
		properties[k.name] = object{"anyOf": options}
	}
	return object{"anyOf": []any{
		object{"enum": bare},
		object{
			"type": "object", "properties": properties, "additionalProperties": false,
			"minProperties": 1, "maxProperties": 1,
		},
	}}
}

// numeric is a default that JSON writes without quotes.
var numeric = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// defaultValue is the default as JSON.
func defaultValue(f field) any {
	if _, ok := formOf(f.typ); ok || f.typ.Kind() == reflect.String {
		return f.def
	}
	if f.typ.Kind() == reflect.Bool {
		return f.def == "true"
	}
	if numeric.MatchString(f.def) {
		return json.Number(f.def)
	}
	return f.def
}
