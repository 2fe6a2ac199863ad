package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Write writes a configuration that was built in Go as the text of a file. Fields with the file's default are left out,
// unless full reports that the type of the field, or of its struct, is to be written in full.
func Write(cfg any, full func(reflect.Type) bool) (string, error) {
	w := &goWriter{full: full}
	w.value(reflect.ValueOf(cfg))
	return w.text.String(), errors.Join(w.errs...)
}

// goWriter writes YAML in flow style, which is JSON with keys in a given order.
type goWriter struct {
	full func(reflect.Type) bool
	text strings.Builder
	path []string
	errs []error
}

// value writes a value that is not zero, or whose zero is meant.
func (w *goWriter) value(v reflect.Value) {
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() {
		w.text.WriteString("null")
		return
	}
	if text, ok := textOf(v); ok {
		w.quoted(text)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.value(v.Elem())
	case reflect.Struct:
		w.structure(v, "")
	case reflect.Map:
		w.mapping(v)
	case reflect.Slice:
		w.list(v)
	case reflect.String:
		w.quoted(v.String())
	default: // numbers and booleans
		fmt.Fprint(&w.text, v.Interface())
	}
}

// textOf is how the file writes one of our scalars.
func textOf(v reflect.Value) (string, bool) {
	at := reflect.New(v.Type())
	at.Elem().Set(v)
	if _, ok := asScalar(at.Elem()); !ok {
		return "", false
	}
	switch s := v.Interface().(type) {
	case interface{ Reveal() string }:
		return s.Reveal(), true
	case fmt.Stringer:
		return s.String(), true
	}
	return fmt.Sprint(v.Interface()), true
}

// quoted writes a text in which nothing is a variable.
func (w *goWriter) quoted(text string) {
	if strings.Contains(text, "${") || strings.Contains(text, "$$") {
		text = strings.ReplaceAll(text, "$", "$$")
	}
	b, _ := json.Marshal(text) // a string always can be
	w.text.Write(b)
}

// structure writes the fields that are set; kind, if any, is its key type.
func (w *goWriter) structure(v reflect.Value, kind string) {
	w.text.WriteString("{")
	comma := ""
	entry := func(name string) {
		w.text.WriteString(comma)
		w.quoted(name)
		w.text.WriteString(": ")
		comma = ", "
	}
	if kind != "" {
		entry("type")
		w.quoted(kind)
	}
	for _, f := range fields(v.Type()) {
		value := f.of(v)
		switch {
		case f.IsKey || value.IsZero() || isDefault(value, f) && !w.full(v.Type()) && !w.full(f.Type): // an empty list that is not nil is not zero
		case f.Lines:
			w.errs = append(w.errs, fmt.Errorf("config: %s: the content of a file cannot be given in Go", strings.Join(append(w.path, f.Name), ".")))
		default:
			entry(f.Name)
			w.path = append(w.path, f.Name)
			w.value(value)
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.text.WriteString("}")
}

// isDefault reports whether a field has what the file would give it. Some keys must
// not be given where they have no meaning, even with their default.
func isDefault(v reflect.Value, f Field) bool {
	def := reflect.New(f.Type).Elem()
	f.setDefault(def)
	return reflect.DeepEqual(v.Interface(), def.Interface())
}

// mapping writes sources, destinations, headers and the like.
func (w *goWriter) mapping(v reflect.Value) {
	w.text.WriteString("{")
	keys := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		keys[fmt.Sprint(k.Interface())] = k
	}
	for i, name := range slices.Sorted(maps.Keys(keys)) {
		if i > 0 {
			w.text.WriteString(", ")
		}
		w.quoted(name)
		w.text.WriteString(": ")
		w.path = append(w.path, name)
		w.registered(v.MapIndex(keys[name]))
		w.path = w.path[:len(w.path)-1]
	}
	w.text.WriteString("}")
}

// registered writes a source or a destination with its type, and anything else as
// it is.
func (w *goWriter) registered(v reflect.Value) {
	kinded, ok := reflect.TypeAssert[Kinded](v)
	if v.Kind() != reflect.Interface || !ok || v.Elem().IsNil() {
		w.value(v)
		return
	}
	w.structure(v.Elem().Elem(), kinded.Kind())
}

// list writes middleware as its name with its options, routes as a mapping by
// name, and anything else as a list.
func (w *goWriter) list(v reflect.Value) {
	key, byKey := keyField(v.Type().Elem())
	opening, closing := "[", "]"
	if byKey {
		opening, closing = "{", "}"
	}
	w.text.WriteString(opening)
	for i := range v.Len() {
		if i > 0 {
			w.text.WriteString(", ")
		}
		item := v.Index(i)
		kinded, isLayer := reflect.TypeAssert[Kinded](item)
		switch {
		case byKey:
			w.quoted(key.of(item).String())
			w.text.WriteString(": ")
			w.structure(item, "")
		case isLayer && !item.Elem().IsNil():
			w.text.WriteString("{")
			w.quoted(kinded.Kind())
			w.text.WriteString(": ")
			w.structure(item.Elem().Elem(), "")
			w.text.WriteString("}")
		default:
			w.value(item)
		}
	}
	w.text.WriteString(closing)
}
