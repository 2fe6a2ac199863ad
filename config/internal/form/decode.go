package form

import (
	"reflect"
	"slices"
	"strings"
)

// Decode fills a configuration, given as a pointer, from the file. Errors that leaveOut selects do not count if there
// are no others, and partial reports that there were some; nil selects none. The error is an [*Errors].
func (c *Checker) Decode(into any, leaveOut func(*Error) bool) (partial bool, err error) {
	root := c.read()
	if root == nil {
		return false, c.result()
	}
	c.structure(reflect.ValueOf(into).Elem(), Location{node: root, found: true})
	if leaveOut != nil && len(c.errors) > 0 && len(slices.DeleteFunc(slices.Clone(c.errors), leaveOut)) == 0 {
		partial, c.errors = true, nil
	}
	if c.exposed && c.literal != nil {
		c.Warn(*c.literal, "is a secret, and every user of this machine can read this file").
			Fix("chmod 600 for the user that runs Outrider, or keep the secret in the environment or in a file of its own")
	}
	return partial, c.result()
}

// structure fills a struct from a mapping, which may have the keys also, too.
func (c *Checker) structure(v reflect.Value, at Location, also ...string) {
	setDefaults(v)
	keys := append(slices.Clone(also), KeysOf(v.Type())...)
	for _, f := range c.Fields(v.Type()) {
		if f.IsKey {
			f.of(v).SetString(at.name.text)
			continue
		}
		c.fieldValue(f.of(v), f, at, keys)
	}
	c.unknownKeys(at, keys)
	c.Check(v.Addr().Interface(), c, at)
}

// unknownKeys reports keys that no field reads.
func (c *Checker) unknownKeys(at Location, keys []string) {
	for _, e := range at.node.entries {
		if slices.Contains(keys, e.key.text) {
			c.show(e.key)
			continue
		}
		where, near := at.Child(e.key.text).Key(), c.NearestKey(e.key.text, keys)
		name := masked
		if plainKey.MatchString(e.key.text) {
			c.show(e.key)
			name = e.key.text
		} else {
			where.path = at.path // it may be a secret in the wrong place
		}
		err := c.Add(where, "unknown key %s", name)
		if near != "" {
			err.Fix("did you mean %s?", near)
		} else {
			err.Fix("known keys: %s", ListNames(keys))
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
// of the mapping.
func (c *Checker) fieldValue(v reflect.Value, f Field, at Location, keys []string) {
	direct, file := at.node.get(f.Name), (*entry)(nil)
	if f.Secret() {
		file = at.node.get(f.Name + "_file")
	}
	if direct != nil && isAbsent(direct.value, f.Type) {
		c.show(direct.key)
		direct = nil
	}
	switch {
	case f.Lines && direct != nil:
		c.secretLines(v, at.Child(f.Name))
	case direct != nil && file != nil && f.Type.Kind() != reflect.Map:
		c.show(file.value)
		c.Add(at.Child(f.Name+"_file").Key(), "%s and %s_file exclude each other", f.Name, f.Name).Fix("remove one of them")
	case file != nil:
		c.fromFile(v, at.Child(f.Name+"_file"))
		if direct != nil {
			c.decode(v, f, at.Child(f.Name))
		}
	case direct != nil:
		c.decode(v, f, at.Child(f.Name))
	case f.Required && !at.node.partial && !c.meant(at, f.Name, keys):
		missing := Location{at.node, at.name, at.path, false}
		c.Add(missing, "the key %s is missing", f.Name).Fix("add %s: ... (%s)", f.Name, firstSentence(f.Doc))
	}
}

func firstSentence(doc string) string {
	first, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(first, ".")
}

// isAbsent reports whether a key without a value means "not given", as it
// does for a section whose content is commented out.
func isAbsent(n *node, t reflect.Type) bool {
	if n.kind != nullNode || n.bad {
		return false
	}
	if _, ok := SpellingOf(t); ok {
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
func (c *Checker) decode(v reflect.Value, f Field, at Location) {
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
func (c *Checker) expect(at Location, want nodeKind) bool {
	if at.node.kind == want {
		return true
	}
	err := c.Add(at, "expected %s, found %s", want, at.node.kind)
	switch {
	case at.node.kind == nullNode:
		err.Fix("give it a value, or remove the key")
	case want == textNode && at.node.kind == mappingNode && !c.braced(at.node):
		err.Fix("put it in quotes; a colon in it makes it a mapping")
	case want == textNode && at.node.kind == mappingNode:
		err.Fix("quote values that begin with a brace: \"{{.Type}}\"")
	case want == textNode && (at.node.kind == numberNode || at.node.kind == boolNode):
		err.Fix("put it in quotes")
	case want == listNode:
		err.Fix("write [one, two], or one item per line, each after a hyphen")
	case want == mappingNode:
		err.Fix("write {key: value}, or one indented key: value per line")
	}
	return false
}

// braced reports whether a value begins with a brace in the file.
func (c *Checker) braced(n *node) bool {
	if n.line < 1 || n.line > len(c.lines) {
		return false
	}
	line := []rune(c.lines[n.line-1])
	return n.col >= 1 && n.col <= len(line) && line[n.col-1] == '{'
}

// mapValue fills a map, or makes the values of an interface by their type key.
func (c *Checker) mapValue(v reflect.Value, f Field, at Location) {
	if !c.expect(at, mappingNode) {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range at.node.entries {
		child := at.Child(e.key.text)
		if r := c.Registry(v.Type().Elem()); r != nil {
			c.named(v, r, child)
			continue
		}
		key := reflect.New(v.Type().Key()).Elem()
		if !c.mapKey(key, child) {
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if v.MapIndex(key).IsValid() {
			c.Add(child.Key(), "is also given in %s_file", f.Name).Fix("remove one of them")
		}
		c.decode(value, Field{Type: value.Type(), Required: true}, child)
		v.SetMapIndex(key, value)
	}
	c.checkLength(len(at.node.entries), f, at)
}

// mapKey reads a key of a map.
func (c *Checker) mapKey(key reflect.Value, at Location) bool {
	if plainKey.MatchString(at.name.text) {
		c.show(at.name)
	}
	s, ok := asScalar(key)
	if !ok {
		key.SetString(at.name.text)
		return true
	}
	if err := s.Parse(at.name.text); err != nil {
		c.Add(at.Key(), "%v", err)
		return false
	}
	return true
}

// named makes one named source or destination.
func (c *Checker) named(v reflect.Value, r *Registry, at Location) {
	c.show(at.name)
	if !c.Names.MatchString(at.name.text) {
		c.Add(at.Key(), "is not a name for a %s", r.What).Fix("use at most 48 of a-z, 0-9, _ and -")
		return
	}
	if at.node.bad || !c.expect(at, mappingNode) {
		return
	}
	typ := at.node.get("type")
	if typ == nil {
		missing := Location{at.node, at.name, at.path, false}
		c.Add(missing, "the key type is missing").Fix("add type: %s", ListNames(r.Names()))
		return
	}
	c.show(typ.key)
	if made, ok := c.byName(r, at.Child("type")); ok {
		c.structure(made.Elem(), at, "type")
		v.SetMapIndex(reflect.ValueOf(at.name.text), made)
	}
}

// byName makes a new value of the kind that a text names.
func (c *Checker) byName(r *Registry, at Location) (reflect.Value, bool) {
	if at.node.bad || !c.expect(at, textNode) {
		return reflect.Value{}, false
	}
	made := r.New(at.node.text)
	if made.IsValid() {
		c.show(at.node)
		return made, true
	}
	if plainKey.MatchString(at.node.raw) {
		c.show(at.node)
	}
	err := c.Add(at, "there is no %s %s", kindWord(r), at.node.quote())
	if near := c.NearestKey(at.node.text, r.Names()); near != "" {
		err.Fix("did you mean %s?", near)
	} else {
		err.Fix("known: %s", strings.Join(r.Names(), ", "))
	}
	return reflect.Value{}, false
}

// kindWord is how people call the kinds of a registry.
func kindWord(r *Registry) string {
	if r.What == "middleware" {
		return "middleware"
	}
	return "type of " + r.What
}
