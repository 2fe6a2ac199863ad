package form

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
// editors. References between names, the order
// of middleware and the like are beyond a schema.
func (d *Declaration) Schema(title string) []byte {
	s := schemaMaker{d, object{"variable": object{"type": "string", "pattern": variable}}}
	root := s.structure(d.Root, "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = title
	root["$defs"] = s.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil // maps, lists, strings and numbers only: it cannot fail
	}
	return append(out, '\n')
}

// schemaMaker collects the schemas of kinds under $defs.
type schemaMaker struct {
	*Declaration
	defs object
}

// structure is the schema of a mapping; kind is the value of its type key, if
// it has one.
func (s schemaMaker) structure(t reflect.Type, kind string) object {
	properties, required, rules := object{}, []string{}, []any{}
	if kind != "" {
		properties["type"] = object{"const": kind}
		required = append(required, "type")
	}
	for _, f := range s.Fields(t) {
		if f.IsKey {
			continue
		}
		properties[f.Name] = s.field(f)
		switch {
		case f.Secret() && f.Type.Kind() != reflect.Map:
			file := f.Name + "_file"
			properties[file] = object{"type": "string", "description": "File that holds " + f.Name + "."}
			rules = append(rules, object{"not": object{"required": []string{f.Name, file}}})
			if f.Required {
				rules = append(rules, object{"anyOf": []any{
					object{"required": []string{f.Name}}, object{"required": []string{file}},
				}})
			}
		case f.Secret():
			properties[f.Name+"_file"] = object{
				"type": "object", "additionalProperties": object{"type": "string"},
				"description": "Files that hold values of " + f.Name + ".",
			}
		case f.Required:
			required = append(required, f.Name)
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
func (s schemaMaker) field(f Field) object {
	out := s.value(f.Type, f)
	out["description"] = f.Doc
	if f.HasDefault {
		out["default"] = defaultValue(f)
	}
	return out
}

// value is the schema of a type within the bounds of a field.
func (s schemaMaker) value(t reflect.Type, f Field) object {
	if fm, ok := SpellingOf(t); ok {
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
		return textSchema(Spelling{Enum: f.Enum}, f)
	case reflect.Bool:
		return orVariable(object{"type": "boolean"})
	case reflect.Int:
		return orVariable(bounded(object{"type": "integer"}, f))
	}
	return orVariable(bounded(object{"type": "number"}, f))
}

// textSchema is the schema of a text of some form.
func textSchema(fm Spelling, f Field) object {
	out := object{"type": "string"}
	if f.Required {
		out["minLength"] = 1
	}
	if fm.Example != "" {
		out["examples"] = []string{fm.Example}
	}
	if fm.Enum != nil {
		out["enum"] = fm.Enum
		return orVariable(out)
	}
	if fm.Pattern != "" {
		out["pattern"] = fm.Pattern
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

func bounded(schema object, f Field) object {
	for key, text := range map[string]string{"minimum": f.Min, "maximum": f.Max} {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			schema[key] = n
		}
	}
	return schema
}

func (s schemaMaker) mapping(t reflect.Type, f Field) object {
	out := object{"type": "object"}
	if r := s.Registry(t.Elem()); r != nil {
		out["additionalProperties"] = s.kinds(r)
		out["propertyNames"] = object{"pattern": s.Names.String()}
	} else {
		out["additionalProperties"] = s.value(t.Elem(), Field{Required: true})
		if fm, ok := SpellingOf(t.Key()); ok {
			out["propertyNames"] = object{"pattern": fm.Pattern}
		}
	}
	if least, err := strconv.Atoi(f.Min); err == nil {
		out["minProperties"] = least
	} else {
		out["type"] = []string{"object", "null"}
	}
	return out
}

// kinds is the schema of something whose other keys follow from its type.
func (s schemaMaker) kinds(r *Registry) object {
	var rules []any
	for _, k := range r.Kinds {
		name := r.What + "." + k.Zero.Kind()
		def := s.structure(k.Type(), k.Zero.Kind())
		def["description"] = k.Doc
		s.defs[name] = def
		rules = append(rules, object{
			"if":   object{"properties": object{"type": object{"const": k.Zero.Kind()}}, "required": []string{"type"}},
			"then": object{"$ref": "#/$defs/" + name},
		})
	}
	return object{
		"type": "object", "required": []string{"type"},
		"properties": object{"type": object{"enum": r.Names()}}, "allOf": rules,
	}
}

func (s schemaMaker) list(t reflect.Type, f Field) object {
	if keyed(t) {
		return object{
			"type": "object", "minProperties": 1,
			"propertyNames":        object{"pattern": s.Names.String()},
			"additionalProperties": s.structure(t.Elem(), ""),
		}
	}
	if f.Lines {
		return object{"type": "string"}
	}
	out := object{"type": "array"}
	if r := s.Registry(t.Elem()); r != nil {
		out["items"] = s.middleware(r)
	} else {
		out["items"] = s.value(t.Elem(), Field{Required: true})
	}
	if least, err := strconv.Atoi(f.Min); err == nil {
		out["minItems"] = least
	}
	if s.Registry(t.Elem()) != nil {
		return object{"anyOf": []any{out, object{
			"type": "object", "properties": object{AddKey: out}, "required": []string{AddKey}, "additionalProperties": false,
		}}}
	}
	if f.single {
		return object{"anyOf": []any{out["items"], out}}
	}
	return out
}

// middleware is the schema of a list item: a name, or a name with its options.
func (s schemaMaker) middleware(r *Registry) object {
	properties, bare := object{}, []string{}
	for _, k := range r.Kinds {
		t := k.Type()
		name := r.What + "." + k.Zero.Kind()
		def := s.structure(t, "")
		if def["required"] == nil {
			def, bare = orNull(def), append(bare, k.Zero.Kind())
		}
		def["description"] = k.Doc
		s.defs[name] = def
		options := []any{object{"$ref": "#/$defs/" + name}}
		if f, ok := scalarField(t); ok {
			options = append(options, s.value(f.Type, f))
		}
		properties[k.Zero.Kind()] = object{"anyOf": options}
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
func defaultValue(f Field) any {
	if _, ok := SpellingOf(f.Type); ok || f.Type.Kind() == reflect.String {
		return f.Default
	}
	if f.Type.Kind() == reflect.Bool {
		return f.Default == "true"
	}
	if numeric.MatchString(f.Default) {
		return json.Number(f.Default)
	}
	return f.Default
}
