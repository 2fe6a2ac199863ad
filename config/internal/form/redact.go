package form

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_/.][A-Za-z0-9_/.-]*$`)

// Redact writes a configuration, given as a pointer, as YAML in the form of the file, with its defaults and every
// secret as ***.
func Redact(cfg any) string {
	var w redacter
	w.structure(reflect.ValueOf(cfg).Elem(), 0)
	return w.out.String()
}

// redacter writes YAML that shows no secrets.
type redacter struct{ out strings.Builder }

func (r *redacter) line(depth int, format string, args ...any) {
	r.out.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&r.out, format, args...)
	r.out.WriteByte('\n')
}

// structure writes the fields that are set.
func (r *redacter) structure(v reflect.Value, depth int) {
	for _, f := range fields(v.Type()) {
		if !f.IsKey {
			r.value(f.Name, f.of(v), depth)
		}
	}
}

// value writes one key with its value, unless it is empty.
func (r *redacter) value(key string, v reflect.Value, depth int) {
	if text, ok := scalarText(v); ok {
		if text != "" {
			r.line(depth, "%s: %s", key, text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			r.value(key, v.Elem(), depth)
		}
	case reflect.Struct:
		if v.IsZero() { // a section that has no meaning here
			return
		}
		var inner redacter
		inner.structure(v, depth+1)
		if inner.out.Len() > 0 {
			r.line(depth, "%s:", key)
			r.out.WriteString(inner.out.String())
		}
	case reflect.Map:
		r.mapping(key, v, depth)
	case reflect.Slice:
		r.list(key, v, depth)
	}
}

func (r *redacter) mapping(key string, v reflect.Value, depth int) {
	if v.Len() == 0 {
		return
	}
	r.line(depth, "%s:", key)
	values := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		values[fmt.Sprint(k.Interface())] = v.MapIndex(k)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if k, ok := reflect.TypeAssert[Kinded](value); ok {
			r.line(depth+1, "%s:", name)
			r.line(depth+2, "type: %s", k.Kind())
			r.structure(value.Elem().Elem(), depth+2)
			continue
		}
		r.value(strconv.Quote(name), value, depth+1)
	}
}

func (r *redacter) list(key string, v reflect.Value, depth int) {
	if v.Len() == 0 {
		if !v.IsNil() {
			r.line(depth, "%s: []", key) // no middleware is not the default middleware
		}
		return
	}
	if f, ok := keyField(v.Type().Elem()); ok {
		r.line(depth, "%s:", key)
		for i := range v.Len() {
			r.line(depth+1, "%s:", f.of(v.Index(i)))
			r.structure(v.Index(i), depth+2)
		}
		return
	}
	if v.Type().Elem().Implements(reflect.TypeFor[Kinded]()) {
		r.line(depth, "%s:", key)
		for i := range v.Len() {
			r.layer(v.Index(i), depth+1)
		}
		return
	}
	texts := make([]string, v.Len())
	for i := range v.Len() {
		texts[i], _ = scalarText(v.Index(i))
	}
	r.line(depth, "%s: [%s]", key, strings.Join(texts, ", "))
}

// layer writes one middleware.
func (r *redacter) layer(v reflect.Value, depth int) {
	k, ok := reflect.TypeAssert[Kinded](v)
	if !ok {
		return
	}
	r.line(depth, "- %s:", k.Kind())
	r.structure(v.Elem().Elem(), depth+2)
}

// scalarText writes a value that is one text; false when it is none. Strings
// are quoted where YAML could read something else.
func scalarText(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Interface {
		return "", false
	}
	if fm, ok := SpellingOf(v.Type()); ok {
		text := fmt.Sprint(v.Interface())
		if text == "" {
			return "", true
		}
		if fm.Secret {
			return strconv.Quote(text), true
		}
		return quoteYAML(maskURL(text)), true
	}
	switch v.Kind() {
	case reflect.String:
		if v.String() == "" {
			return "", true
		}
		return quoteYAML(maskURL(v.String())), true
	case reflect.Bool, reflect.Int, reflect.Float64:
		return fmt.Sprint(v.Interface()), true
	}
	return "", false
}

// quoteYAML quotes what is not a plain word, and doubles dollar signs so that
// none begins a variable.
func quoteYAML(text string) string {
	text = strings.ReplaceAll(text, "$", "$$")
	if plainWord.MatchString(text) && !numeric.MatchString(text) && text != "true" && text != "false" && text != "null" {
		return text
	}
	return strconv.Quote(text)
}
