package form

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Field is a key of a struct, as its tags declare it.
type Field struct {
	Name       string // key in the file
	Type       reflect.Type
	Doc        string
	Default    string // as written in the file
	HasDefault bool
	Enum       []string
	Min, Max   string
	Required   bool
	Lines      bool // a list of secrets in the named file
	IsKey      bool // holds the mapping's key

	index  []int
	enum   string // as in the tag
	scalar bool   // may be written in place of its struct
	single bool   // a list that may be written as its only item
}

// Secret reports whether the field can be given as KEY_file, too.
func (f Field) Secret() bool {
	if f.Type.Kind() == reflect.Map {
		return isSecret(f.Type.Elem())
	}
	return isSecret(f.Type)
}

// of returns the field of a struct.
func (f Field) of(v reflect.Value) reflect.Value { return v.FieldByIndex(f.index) }

// fieldCache keeps the fields of struct types.
var fieldCache sync.Map

// Key is the type of a blank field of a struct that inlines another one: it gives the struct a key of the inlined
// struct, at this position of the order. Its tags go before those of the inlined field.
type Key struct{}

// fields reads the tags of a struct type.
func fields(t reflect.Type) []Field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]Field) //nolint:forcetypeassert // only stored below
	}
	var out []Field
	inlined := map[string]Field{}
	for sf := range t.Fields() {
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		f := Field{Name: name, Type: sf.Type, index: sf.Index, IsKey: option == "key"}
		switch {
		case option == "inline":
			for _, f := range fields(sf.Type) {
				f.index = append(slices.Clone(sf.Index), f.index...)
				inlined[f.Name] = f
			}
			continue
		case sf.Type == reflect.TypeFor[Key]():
			f = inlined[name]
		case name == "-" || !sf.IsExported():
			continue
		}
		f.read(sf.Tag)
		out = append(out, f)
	}
	fieldCache.Store(t, out)
	return out
}

// read takes the properties of the field that a tag has.
func (f *Field) read(tag reflect.StructTag) {
	for key, text := range map[string]*string{"doc": &f.Doc, "enum": &f.enum, "min": &f.Min, "max": &f.Max, "default": &f.Default} {
		if given, ok := tag.Lookup(key); ok {
			*text = given
			f.HasDefault = f.HasDefault || key == "default"
		}
	}
	for key, on := range map[string]*bool{"required": &f.Required, "scalar": &f.scalar, "single": &f.single} {
		*on = *on || tag.Get(key) == "true"
	}
	f.Lines = f.Lines || tag.Get("file") == "lines"
}

// KeysOf returns the keys of a struct.
func KeysOf(t reflect.Type) (keys []string) {
	for _, f := range fields(t) {
		if f.IsKey {
			continue
		}
		keys = append(keys, f.Name)
		if f.Secret() {
			keys = append(keys, f.Name+"_file")
		}
	}
	return keys
}

// firstField returns the first field of a struct that meets a condition.
func firstField(t reflect.Type, meets func(Field) bool) (Field, bool) {
	if t.Kind() == reflect.Struct {
		for _, f := range fields(t) {
			if meets(f) {
				return f, true
			}
		}
	}
	return Field{}, false
}

// scalarField returns the field that may be written in place of its struct.
func scalarField(t reflect.Type) (Field, bool) {
	return firstField(t, func(f Field) bool { return f.scalar })
}

// keyField returns the field that holds the mapping's key.
func keyField(t reflect.Type) (Field, bool) {
	return firstField(t, func(f Field) bool { return f.IsKey })
}

// asScalar returns the scalar of an addressable value.
func asScalar(v reflect.Value) (Scalar, bool) {
	if !v.CanAddr() {
		return nil, false
	}
	return reflect.TypeAssert[Scalar](v.Addr())
}

// SpellingOf describes the scalars of a type; false if it has none.
func SpellingOf(t reflect.Type) (Spelling, bool) {
	s, ok := reflect.TypeAssert[Scalar](reflect.New(t))
	if !ok {
		return Spelling{}, false
	}
	return s.Spelling(), true
}

func isSecret(t reflect.Type) bool {
	s, ok := SpellingOf(t)
	return ok && s.Secret
}

// setDefaults gives every field of a struct its default.
func setDefaults(v reflect.Value) {
	for _, f := range fields(v.Type()) {
		f.setDefault(f.of(v))
	}
}

// setDefault gives a field its default.
func (f Field) setDefault(v reflect.Value) {
	if _, ok := SpellingOf(f.Type); !ok && f.Type.Kind() == reflect.Struct {
		setDefaults(v)
	} else if f.HasDefault {
		setText(v, f.Default)
	}
}
