package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/admin/server"
)

// decode fills the fields of an operation's input by their tags, and checks them by the same
// tags that the OpenAPI document is made from.
func decode(r *http.Request, in reflect.Value) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return server.Failed(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	return fields(in, func(f reflect.StructField, v reflect.Value) error {
		if f.Name == "Body" {
			return decodeBody(r, v)
		}
		if name := f.Tag.Get("path"); name != "" {
			return parameter(f, v, name, r.PathValue(name))
		}
		name := f.Tag.Get("query")
		if query.Has(name) {
			return parameter(f, v, name, query.Get(name))
		}
		if text := f.Tag.Get("default"); text != "" {
			return parameter(f, v, name, text)
		}
		if f.Tag.Get("required") == "true" {
			return invalid("%s is needed", name)
		}
		return nil
	})
}

// fields calls f for the fields of a struct, and for those of embedded ones.
func fields(v reflect.Value, f func(reflect.StructField, reflect.Value) error) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		var err error
		if field.Anonymous {
			err = fields(v.Field(i), f)
		} else {
			err = f(field, v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parameter sets a field by its text.
func parameter(f reflect.StructField, v reflect.Value, name, text string) error {
	switch v.Interface().(type) {
	case string:
		v.SetString(text)
	case int, int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return invalid("%s: %q is no whole number", name, text)
		}
		v.SetInt(n)
	case bool:
		if text != "true" && text != "false" {
			return invalid("%s: %q is neither true nor false", name, text)
		}
		v.SetBool(text == "true")
	case time.Time:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return invalid("%s: %q is no time such as 2026-01-31T08:00:00Z", name, text)
		}
		v.Set(reflect.ValueOf(t))
	}
	return check(f, v, name)
}

// check holds a value against the tags of its field.
func check(f reflect.StructField, v reflect.Value, name string) error {
	limit := func(tag string) (int64, bool) {
		n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64)
		return n, err == nil
	}
	if v.Kind() == reflect.String {
		n := int64(utf8.RuneCountInString(v.String()))
		if most, ok := limit("maxLength"); ok && n > most {
			return invalid("%s is longer than %d characters", name, most)
		}
		if least, ok := limit("minLength"); ok && n < least {
			return invalid("%s is needed", name)
		}
		if pattern := f.Tag.Get("pattern"); pattern != "" {
			if ok, err := regexp.MatchString(pattern, v.String()); err != nil || !ok {
				return invalid("%s: %q is not of the form %s", name, v.String(), pattern)
			}
		}
		if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), v.String()) {
			return invalid("%s: %q is none of %s", name, v.String(), strings.ReplaceAll(enum, ",", ", "))
		}
	}
	if most, ok := limit("maxItems"); ok && v.Kind() == reflect.Slice && int64(v.Len()) > most {
		return invalid("%s has more than %d items", name, most)
	}
	if v.CanInt() {
		if least, ok := limit("minimum"); ok && v.Int() < least {
			return invalid("%s: %d is less than %d", name, v.Int(), least)
		}
		if most, ok := limit("maximum"); ok && v.Int() > most {
			return invalid("%s: %d is more than %d", name, v.Int(), most)
		}
	}
	return nil
}

// decodeBody reads a JSON object. Names have to be those of the document, in their case.
func decodeBody(r *http.Request, v reflect.Value) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return server.Failed(http.StatusUnsupportedMediaType, "send a body of type application/json")
	}
	text, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return server.Failed(http.StatusRequestEntityTooLarge, "the body is too large")
	} else if err != nil {
		return server.Failed(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil || given == nil {
		return server.Failed(http.StatusBadRequest, "the body is no JSON object")
	}
	left := len(given)
	err = fields(v, func(f reflect.StructField, v reflect.Value) error {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		raw, ok := given[name]
		if !ok {
			if strings.Contains(f.Tag.Get("json"), ",omit") {
				return nil
			}
			return invalid("%s is needed", name)
		}
		left--
		if string(raw) == "null" || json.Unmarshal(raw, v.Addr().Interface()) != nil {
			return invalid("%s: %s is not of its type", name, raw)
		}
		return check(f, v, name)
	})
	if err == nil && left > 0 {
		return invalid("the body has names that this operation does not know; see %s/openapi.json", Prefix)
	}
	return err
}
