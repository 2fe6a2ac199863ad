package config

import (
	"reflect"
	"slices"
	"strings"
)

// decodeRoot fills the configuration from the file's mapping.
func (c *checker) decodeRoot(cfg *Config, root *node) {
	c.structure(reflect.ValueOf(cfg).Elem(), place{node: root, found: true})
}

// structure fills a struct from a mapping. Keys named in also are somebody
// else's.
func (c *checker) structure(v reflect.Value, at place, also ...string) {
	setDefaults(v)
	keys := append(slices.Clone(also), keysOf(v.Type())...)
	for _, f := range fieldsOf(v.Type()) {
		if f.isKey {
			v.Field(f.index).SetString(at.name.text)
			continue
		}
		c.fieldValue(v.Field(f.index), f, at, keys)
	}
	c.unknownKeys(at, keys)
	c.selfCheck(v, at)
}

// keysOf are the keys of a struct.
func keysOf(t reflect.Type) (keys []string) {
	for _, f := range fieldsOf(t) {
		if f.isKey {
			continue
		}
		keys = append(keys, f.name)
		if f.secret() {
			keys = append(keys, f.name+"_file")
		}
	}
	return keys
}

// selfCheck lets a struct look at what no tag can say.
func (c *checker) selfCheck(v reflect.Value, at place) {
	type selfChecker interface{ check(c *checker, at place) }
	if s, ok := reflect.TypeAssert[selfChecker](v.Addr()); ok {
		s.check(c, at)
	}
}

// unknownKeys reports keys that no field reads.
func (c *checker) unknownKeys(at place, keys []string) {
	for _, e := range at.node.entries {
		if slices.Contains(keys, e.key.text) {
			c.show(e.key)
			continue
		}
		place, near := at.child(e.key.text).key(), nearestKey(e.key.text, keys)
		name := masked
		if plainKey.MatchString(e.key.text) {
			c.show(e.key)
			name = e.key.text
		} else {
			place.path = at.path // it may be a secret in the wrong place
		}
		err := c.add(place, "unknown key %s", name)
		if near != "" {
			err.hint("did you mean %s?", near)
		} else {
			err.hint("known keys: %s", listNames(keys))
		}
	}
}

// keyText is a key as messages may show it.
func keyText(key *node) string {
	if plainKey.MatchString(key.text) {
		return key.text
	}
	return masked
}

// fieldValue fills one field from its key, or its key's _file form. keys are all
// that the place knows.
func (c *checker) fieldValue(v reflect.Value, f field, at place, keys []string) {
	direct, file := at.node.get(f.name), (*entry)(nil)
	if f.secret() {
		file = at.node.get(f.name + "_file")
	}
	if direct != nil && isAbsent(direct.value, f.typ) {
		c.show(direct.key)
		direct = nil
	}
	switch {
	case f.lines && direct != nil:
		c.secretLines(v, at.child(f.name))
	case direct != nil && file != nil && f.typ.Kind() != reflect.Map:
		c.show(file.value)
		c.add(at.child(f.name+"_file").key(), "%s and %s_file exclude each other", f.name, f.name).hint("remove one of them")
	case file != nil:
		c.fromFile(v, at.child(f.name+"_file"))
		if direct != nil {
			c.decode(v, f, at.child(f.name))
		}
	case direct != nil:
		c.decode(v, f, at.child(f.name))
	case f.required && !at.node.partial && !meant(at, f.name, keys):
		missing := place{at.node, at.name, at.path, false}
		c.add(missing, "the key %s is missing", f.name).hint("add %s: ... (%s)", f.name, firstSentence(f.doc))
	}
}

func firstSentence(doc string) string {
	first, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(first, ".")
}

// isAbsent reports whether a key without a value stands for "not given": so it
// does for a section whose content is commented out.
func isAbsent(n *node, t reflect.Type) bool {
	if n.kind != nullNode || n.bad {
		return false
	}
	if _, ok := formOf(t); ok {
		return false
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer || keyed(t)
}

// keyed reports whether a list is written as a mapping.
func keyed(t reflect.Type) bool {
	if t.Kind() != reflect.Slice {
		return false
	}
	_, ok := keyField(t.Elem())
	return ok
}

// decode fills a value of any type.
func (c *checker) decode(v reflect.Value, f field, at place) {
	if at.node.bad {
		return // reported when it was read
	}
	if s, ok := asScalar(v); ok {
		c.scalarValue(v, s, f, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.decode(v.Elem(), f, at)
	case reflect.Struct:
		if c.expect(at, mappingNode) {
			c.structure(v, at)
		}
	case reflect.Map:
		c.mapValue(v, f, at)
	case reflect.Slice:
		c.listValue(v, f, at)
	default:
		c.basic(v, f, at)
	}
}

// expect reports a value of the wrong kind.
func (c *checker) expect(at place, want nodeKind) bool {
	if at.node.kind == want {
		return true
	}
	err := c.add(at, "expected %s, found %s", want, at.node.kind)
	switch {
	case at.node.kind == nullNode:
		err.hint("give it a value, or remove the key")
	case want == textNode && at.node.kind == mappingNode && !c.braced(at.node):
		err.hint("put it in quotes; a colon in it makes it a mapping")
	case want == textNode && at.node.kind == mappingNode:
		err.hint("quote values that begin with a brace: \"{{.Type}}\"")
	case want == textNode && (at.node.kind == numberNode || at.node.kind == boolNode):
		err.hint("put it in quotes")
	case want == listNode:
		err.hint("write [one, two], or one item per line, each after a hyphen")
	case want == mappingNode:
		err.hint("write {key: value}, or one indented key: value per line")
	}
	return false
}

// braced reports whether a value begins with a brace in the file.
func (c *checker) braced(n *node) bool {
	if n.line < 1 || n.line > len(c.lines) {
		return false
	}
	line := []rune(c.lines[n.line-1])
	return n.col >= 1 && n.col <= len(line) && line[n.col-1] == '{'
}

// mapValue fills a map, or makes the values of an interface by their type key.
func (c *checker) mapValue(v reflect.Value, f field, at place) {
	if !c.expect(at, mappingNode) {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range at.node.entries {
		child := at.child(e.key.text)
		if r, ok := registries[v.Type().Elem()]; ok {
			c.named(v, r, child)
			continue
		}
		key := reflect.New(v.Type().Key()).Elem()
		if !c.mapKey(key, child) {
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if v.MapIndex(key).IsValid() {
			c.add(child.key(), "is also given in %s_file", f.name).hint("remove one of them")
		}
		c.decode(value, field{typ: value.Type(), required: true}, child)
		v.SetMapIndex(key, value)
	}
	c.checkLength(len(at.node.entries), f, at)
}

// mapKey reads a key of a map.
func (c *checker) mapKey(key reflect.Value, at place) bool {
	if plainKey.MatchString(at.name.text) {
		c.show(at.name)
	}
	s, ok := asScalar(key)
	if !ok {
		key.SetString(at.name.text)
		return true
	}
	if err := s.parse(at.name.text); err != nil {
		c.add(at.key(), "%v", err)
		return false
	}
	return true
}

// named makes one named source or destination.
func (c *checker) named(v reflect.Value, r *registry, at place) {
	c.show(at.name)
	if !routeName.MatchString(at.name.text) {
		c.add(at.key(), "is not a name for a %s", r.what).hint("use at most 48 of a-z, 0-9, _ and -")
		return
	}
	if at.node.bad || !c.expect(at, mappingNode) {
		return
	}
	typ := at.node.get("type")
	if typ == nil {
		missing := place{at.node, at.name, at.path, false}
		c.add(missing, "the key type is missing").hint("add type: %s", listNames(r.names()))
		return
	}
	c.show(typ.key)
	if made, ok := c.byName(r, at.child("type")); ok {
		c.structure(made.Elem(), at, "type")
		v.SetMapIndex(reflect.ValueOf(at.name.text), made)
	}
}

// byName makes a new value of the kind that a text names.
func (c *checker) byName(r *registry, at place) (reflect.Value, bool) {
	if at.node.bad || !c.expect(at, textNode) {
		return reflect.Value{}, false
	}
	made := r.new(at.node.text)
	if made.IsValid() {
		c.show(at.node)
		return made, true
	}
	if plainKey.MatchString(at.node.raw) {
		c.show(at.node)
	}
	err := c.add(at, "there is no %s %s", kindWord(r), at.node.quote())
	if near := nearestKey(at.node.text, r.names()); near != "" {
		err.hint("did you mean %s?", near)
	} else {
		err.hint("known: %s", strings.Join(r.names(), ", "))
	}
	return reflect.Value{}, false
}

// kindWord is how people call the kinds of a registry.
func kindWord(r *registry) string {
	if r.what == "middleware" {
		return "middleware"
	}
	return "type of " + r.what
}
