package form

import (
	"fmt"
	"reflect"
	"strconv"
)

// listValue fills a list: of middleware, of structs that are written as a
// mapping, or of plain values.
func (c *Checker) listValue(v reflect.Value, f Field, at Location) {
	if keyed(v.Type()) {
		c.keyedList(v, f, at)
		return
	}
	if f.single && at.node.kind == textNode {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		c.decode(v.Index(0), Field{Type: v.Type().Elem(), Required: true}, at)
		return
	}
	registry := c.Registry(v.Type().Elem())
	if registry != nil && at.node.kind == mappingNode {
		c.addedList(v, f, at)
		return
	}
	if !c.expect(at, listNode) {
		return
	}
	n := len(at.node.items)
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		item := at.Item(i)
		if registry != nil {
			c.middlewareItem(v.Index(i), registry, item)
			continue
		}
		c.decode(v.Index(i), Field{Type: v.Type().Elem(), Required: true}, item)
	}
	c.checkLength(n, f, at)
}

// keyedList fills a list of structs from a mapping, in the order of the file.
func (c *Checker) keyedList(v reflect.Value, f Field, at Location) {
	if !c.expect(at, mappingNode) {
		return
	}
	for _, e := range at.node.entries {
		child := at.Child(e.key.text)
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
func (c *Checker) middlewareItem(v reflect.Value, r *Registry, at Location) {
	n := at.node
	switch {
	case n.bad:
		return
	case n.kind == textNode:
		if made, ok := c.byName(r, at); ok {
			options := Location{&node{kind: mappingNode, line: n.line, col: n.col, tok: n.tok}, nil, at.path + "." + n.text, true}
			c.structure(made.Elem(), options)
			v.Set(made)
		}
		return
	case n.kind != mappingNode || len(n.entries) != 1:
		c.Add(at, "expected one middleware by its name, found %s", describe(n)).
			Fix("write - timeout: 30s, with each middleware behind its own hyphen")
		return
	}
	key := n.entries[0].key
	made, ok := c.byName(r, Location{key, key, at.path, true})
	if !ok {
		return
	}
	v.Set(made)
	c.middlewareOptions(made.Elem(), at.Child(key.text))
}

func (c *Checker) middlewareOptions(v reflect.Value, at Location) {
	f, short := scalarField(v.Type())
	switch {
	case at.node.bad:
	case at.node.kind == nullNode:
		c.structure(v, Location{&node{kind: mappingNode}, at.name, at.path, true}.Key())
	case short && at.node.kind != mappingNode && at.node.kind != listNode:
		setDefaults(v)
		c.decode(f.of(v), f, at)
		c.Check(v.Addr().Interface(), c, Location{&node{kind: mappingNode}, at.name, at.path, true})
	case c.expect(at, mappingNode):
		c.structure(v, at)
	}
}

// describe names a list item that is not as it should be.
func describe(n *node) string {
	if n.kind == mappingNode {
		return fmt.Sprintf("a mapping with %d keys", len(n.entries))
	}
	return n.kind.String()
}

// checkLength compares the length of a list or mapping with its least.
func (c *Checker) checkLength(n int, f Field, at Location) {
	if least, err := strconv.Atoi(f.Min); err == nil && n < least {
		c.Add(at, "must not be empty").Fix("add an entry, or remove the key")
	}
}

// AddKey is the key of a mapping in place of a list: its items are added to the default list.
const AddKey = "add"

// addedList reads {add: [...]} in place of a list.
func (c *Checker) addedList(v reflect.Value, f Field, at Location) {
	c.unknownKeys(at, []string{AddKey})
	switch add := at.Child(AddKey); {
	case !add.found && !at.node.bad && len(at.node.entries) == 0:
		c.Add(at, "the key %s is missing", AddKey).Fix("write {add: [dedupe: 24h]}, or a list")
	case add.found && !add.node.bad && c.expect(add, listNode):
		c.listValue(v, f, add)
	}
}
