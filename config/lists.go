package config

import (
	"fmt"
	"reflect"
	"strconv"
)

// listValue fills a list: of middleware, of structs that are written as a
// mapping, or of plain values.
func (c *checker) listValue(v reflect.Value, f field, at place) {
	if keyed(v.Type()) {
		c.keyedList(v, f, at)
		return
	}
	if f.single && at.node.kind == textNode {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		c.decode(v.Index(0), field{typ: v.Type().Elem(), required: true}, at)
		return
	}
	if _, layers := registries[v.Type().Elem()]; layers && at.node.kind == mappingNode {
		c.addedList(v, f, at)
		return
	}
	if !c.expect(at, listNode) {
		return
	}
	n := len(at.node.items)
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		item := at.item(i)
		if r, ok := registries[v.Type().Elem()]; ok {
			c.middlewareItem(v.Index(i), r, item)
			continue
		}
		c.decode(v.Index(i), field{typ: v.Type().Elem(), required: true}, item)
	}
	c.checkLength(n, f, at)
}

// keyedList fills a list of structs from a mapping, in the order of the file.
func (c *checker) keyedList(v reflect.Value, f field, at place) {
	if !c.expect(at, mappingNode) {
		return
	}
	for _, e := range at.node.entries {
		child := at.child(e.key.text)
		c.show(e.key)
		if child.node.bad || !c.expect(child, mappingNode) {
			continue
		}
		one := reflect.New(v.Type().Elem()).Elem()
		c.structure(one, child)
		v.Set(reflect.Append(v, one))
	}
	c.checkLength(len(at.node.entries), f, at)
}

// middlewareItem reads one layer: its bare name, or its name with a mapping of
// options, or with the one value that its struct allows instead.
func (c *checker) middlewareItem(v reflect.Value, r *registry, at place) {
	n := at.node
	switch {
	case n.bad:
		return
	case n.kind == textNode:
		if made, ok := c.byName(r, at); ok {
			options := place{&node{kind: mappingNode, line: n.line, col: n.col, tok: n.tok}, nil, at.path + "." + n.text, true}
			c.structure(made.Elem(), options)
			v.Set(made)
		}
		return
	case n.kind != mappingNode || len(n.entries) != 1:
		c.add(at, "expected one middleware by its name, found %s", describe(n)).
			hint("write - timeout: 30s, with each middleware behind its own hyphen")
		return
	}
	key := n.entries[0].key
	made, ok := c.byName(r, place{key, key, at.path, true})
	if !ok {
		return
	}
	v.Set(made)
	c.middlewareOptions(made.Elem(), at.child(key.text))
}

func (c *checker) middlewareOptions(v reflect.Value, at place) {
	f, short := scalarField(v.Type())
	switch {
	case at.node.bad:
	case at.node.kind == nullNode:
		c.structure(v, place{&node{kind: mappingNode}, at.name, at.path, true}.key())
	case short && at.node.kind != mappingNode && at.node.kind != listNode:
		setDefaults(v)
		c.decode(v.Field(f.index), f, at)
		c.selfCheck(v, place{&node{kind: mappingNode}, at.name, at.path, true})
	case c.expect(at, mappingNode):
		c.structure(v, at)
	}
}

// describe says what a list item is, when it is not what it should be.
func describe(n *node) string {
	if n.kind == mappingNode {
		return fmt.Sprintf("a mapping with %d keys", len(n.entries))
	}
	return n.kind.String()
}

// checkLength compares the length of a list or mapping with its least.
func (c *checker) checkLength(n int, f field, at place) {
	if least, err := strconv.Atoi(f.min); err == nil && n < least {
		c.add(at, "must not be empty").hint("add an entry, or remove the key")
	}
}
