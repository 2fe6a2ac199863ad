package config

import (
	"reflect"
	"strings"
	"sync"
)

// field is what a struct's tags declare about one key.
type field struct {
	name     string // key in the file
	index    int
	typ      reflect.Type
	doc      string
	def      string // default as written in the file
	hasDef   bool
	enum     []string
	min, max string
	required bool
	scalar   bool // may be written in place of its struct
	single   bool // a list that may be written as its only item
	lines    bool // a list of secrets in the named file
	isKey    bool // holds the mapping's key
}

// secret reports whether the field can be given as KEY_file, too.
func (f field) secret() bool {
	if f.typ.Kind() == reflect.Map {
		return isSecret(f.typ.Elem())
	}
	return isSecret(f.typ)
}

// fieldCache keeps what tags declare, by type.
var fieldCache sync.Map

// fieldsOf reads the tags of a struct type.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field) //nolint:forcetypeassert // only stored below
	}
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if name == "-" || !sf.IsExported() {
			continue
		}
		f := field{name: name, index: i, typ: sf.Type, isKey: option == "key"}
		f.doc = presetWords.Replace(sf.Tag.Get("doc"))
		f.def, f.hasDef = sf.Tag.Lookup("default")
		f.min, f.max = sf.Tag.Get("min"), sf.Tag.Get("max")
		f.required = sf.Tag.Get("required") == "true"
		f.scalar = sf.Tag.Get("scalar") == "true"
		f.single = sf.Tag.Get("single") == "true"
		f.lines = sf.Tag.Get("file") == "lines"
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.enum = strings.Split(presetWords.Replace(enum), "|")
		}
		out = append(out, f)
	}
	fieldCache.Store(t, out)
	return out
}

// scalarField returns the field that may be written in place of its struct.
func scalarField(t reflect.Type) (field, bool) {
	for _, f := range fieldsOf(t) {
		if f.scalar {
			return f, true
		}
	}
	return field{}, false
}

// keyField returns the field that holds the mapping's key.
func keyField(t reflect.Type) (field, bool) {
	if t.Kind() != reflect.Struct {
		return field{}, false
	}
	for _, f := range fieldsOf(t) {
		if f.isKey {
			return f, true
		}
	}
	return field{}, false
}

// asScalar returns the scalar of an addressable value.
func asScalar(v reflect.Value) (scalar, bool) {
	if !v.CanAddr() {
		return nil, false
	}
	s, ok := reflect.TypeAssert[scalar](v.Addr())
	return s, ok
}

// formOf describes the scalars of a type.
func formOf(t reflect.Type) (form, bool) {
	s, ok := reflect.TypeAssert[scalar](reflect.New(t))
	if !ok {
		return form{}, false
	}
	return s.form(), true
}

func isSecret(t reflect.Type) bool {
	f, ok := formOf(t)
	return ok && f.secret
}

// setDefaults gives every field of a struct its default.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		target := v.Field(f.index)
		if _, ok := formOf(f.typ); !ok && f.typ.Kind() == reflect.Struct {
			setDefaults(target)
		} else if f.hasDef {
			setText(target, f.def)
		}
	}
}

// vocabulary is every word that our configuration knows.
var vocabulary = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{addKey: true}
	collectWords(reflect.TypeFor[Config](), words)
	return words
})

func collectWords(t reflect.Type, words map[string]bool) {
	if r, ok := registries[t]; ok {
		words["type"] = true
		for _, k := range r.kinds {
			words[k.name] = true
			collectWords(reflect.TypeOf(k.zero).Elem(), words)
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		collectWords(t.Elem(), words)
	case reflect.Struct:
		if _, ok := formOf(t); ok {
			return
		}
		for _, f := range fieldsOf(t) {
			words[f.name] = true
			if f.secret() {
				words[f.name+"_file"] = true
			}
			for _, v := range f.enum {
				words[v] = true
			}
			collectWords(f.typ, words)
		}
	}
}
