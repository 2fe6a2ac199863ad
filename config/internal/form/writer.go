package form

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	case reflect.Struct, reflect.Map, reflect.Slice:
		w.collection(v, "")
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

// collection writes a mapping or a list; kind, if any, is the value of its key type.
func (w *goWriter) collection(v reflect.Value, kind string) {
	all, list := parts(v)
	brackets := "{}"
	if list {
		brackets = "[]"
	}
	w.text.WriteString(brackets[:1])
	comma := ""
	if kind != "" {
		w.entry("type")
		w.quoted(kind)
		comma = ", "
	}
	for _, p := range all {
		if f := p.field; f.Name != "" && w.leftOut(v.Type(), f, p.value) {
			continue
		}
		w.text.WriteString(comma)
		comma = ", "
		w.path = append(w.path, p.name)
		w.part(p, list)
		w.path = w.path[:len(w.path)-1]
	}
	w.text.WriteString(brackets[1:])
}

func (w *goWriter) part(p part, list bool) {
	item := list && p.name != "" // of middleware
	if item {
		w.text.WriteString("{")
	}
	if p.name != "" {
		w.entry(p.name)
	}
	if p.kind != "" {
		w.collection(p.value, p.kind)
	} else {
		w.value(p.value)
	}
	if item {
		w.text.WriteString("}")
	}
}

func (w *goWriter) entry(name string) {
	w.quoted(name)
	w.text.WriteString(": ")
}

// leftOut reports whether a field of a struct is not written: it has no value, or that which the file would give it.
func (w *goWriter) leftOut(t reflect.Type, f Field, v reflect.Value) bool {
	if v.IsZero() || isDefault(v, f) && !w.full(t) && !w.full(f.Type) { // an empty list that is not nil is not zero
		return true
	}
	if f.Lines {
		w.errs = append(w.errs, fmt.Errorf("config: %s: the content of a file cannot be given in Go", strings.Join(append(w.path, f.Name), ".")))
	}
	return f.Lines
}

// isDefault reports whether a field has what the file would give it. Some keys must
// not be given where they have no meaning, even with their default.
func isDefault(v reflect.Value, f Field) bool {
	def := reflect.New(f.Type).Elem()
	f.setDefault(def)
	return reflect.DeepEqual(v.Interface(), def.Interface())
}

// part is an entry of a mapping, or an item of a list.
type part struct {
	name  string // its key; of an item the name of its kind, if it has one
	kind  string // the value of its key type, if it has that
	value reflect.Value
	field Field // of a struct
}

// parts takes a struct, a map or a slice apart as the file has it: as a mapping, or as a list.
func parts(v reflect.Value) (all []part, list bool) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fields(v.Type()) {
			if !f.IsKey {
				all = append(all, part{name: f.Name, value: f.of(v), field: f})
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			kind, value := kindOf(v.MapIndex(k))
			all = append(all, part{name: fmt.Sprint(k.Interface()), kind: kind, value: value})
		}
		slices.SortFunc(all, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	case reflect.Slice:
		key, byKey := keyField(v.Type().Elem())
		for i := range v.Len() {
			kind, value := kindOf(v.Index(i))
			if byKey {
				kind = key.of(value).String()
			}
			all = append(all, part{name: kind, value: value})
		}
		return all, !byKey
	}
	return all, false
}

// kindOf returns the kind of a source, a destination or middleware and its struct; of anything else no kind and the value.
func kindOf(v reflect.Value) (kind string, value reflect.Value) {
	if k, ok := reflect.TypeAssert[Kinded](v); ok && v.Kind() == reflect.Interface && !v.Elem().IsNil() {
		return k.Kind(), v.Elem().Elem()
	}
	return "", v
}
