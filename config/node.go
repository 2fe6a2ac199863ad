package config

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml/token"
)

// nodeKind is the kind of a YAML value.
type nodeKind int

const (
	nullNode nodeKind = iota
	textNode          // text, quoted or not
	numberNode
	boolNode
	mappingNode
	listNode
)

// String names the kind for messages.
func (k nodeKind) String() string {
	return [...]string{"nothing", "a string", "a number", "true or false", "a mapping", "a list"}[k]
}

// node is a YAML value after variables were put in and aliases followed.
type node struct {
	kind      nodeKind
	line, col int
	text      string         // of a scalar
	raw       string         // the text before variables were put in
	quoted    bool           // a string for certain, whatever it looks like
	fromEnv   bool           // a variable was put in
	bad       bool           // reported already; not to be decoded
	partial   bool           // a mapping with keys that were refused
	shown     bool           // may be shown in messages
	entries   []entry        // of a mapping, without duplicates; see add
	places    map[string]int // of the entries, by key, if they are many
	items     []*node        // of a list
	tok       *token.Token
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *node }

// fewEntries are looked through for a key.
const fewEntries = 8

// add adds an entry to a mapping.
func (n *node) add(e entry) {
	n.entries = append(n.entries, e)
	switch {
	case n.places != nil:
		n.places[e.key.text] = len(n.entries) - 1
	case len(n.entries) > fewEntries:
		n.places = make(map[string]int, 2*fewEntries)
		for i := range n.entries {
			n.places[n.entries[i].key.text] = i
		}
	}
}

// get returns the entry of a key, nil without one.
func (n *node) get(key string) *entry {
	if n.places != nil {
		if i, ok := n.places[key]; ok {
			return &n.entries[i]
		}
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key.text == key {
			return &n.entries[i]
		}
	}
	return nil
}

// quote is the value as a message may show it: as it stands in the file, so
// that the value of a variable is not shown, and not at all where it may be secret.
func (n *node) quote() string {
	if !n.shown {
		return masked
	}
	return strconv.Quote(shorten(n.raw))
}

// place is a value together with the way to it.
type place struct {
	node  *node
	name  *node  // the key that the value stands under; nil for list items
	path  string // for example routes.orders.to
	found bool   // false: the key is not there, and node is the mapping
}

// plainKey is a key that needs no quotes in a path.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// joinPath adds a key to a path. Text that does not look like a key may be a secret
// in the wrong place.
func joinPath(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + masked + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// itemPath adds the place in a list to a path.
func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// child is the place under a key, or under the key's _file form. When the key
// is missing the place stands for it: errors then point at the mapping.
func (p place) child(key string) place {
	path := joinPath(p.path, key)
	e, suffix := p.node.get(key), ""
	if e == nil {
		e, suffix = p.node.get(key+"_file"), "_file"
	}
	if e == nil {
		return place{p.node, p.name, path, false}
	}
	return place{e.value, e.key, path + suffix, true}
}

// item is the place of a list's item. A value that may stand for a list of
// one is its own item.
func (p place) item(i int) place {
	if i >= len(p.node.items) {
		return p
	}
	item := p.node.items[i]
	return place{item, nil, itemPath(p.path, i), true}
}

// key is the place of the key instead of its value.
func (p place) key() place {
	if p.name != nil {
		p.node = p.name
	}
	return p
}

// entries are those of the mapping at the place; none when it is not there.
func (p place) entries() []entry {
	if !p.found {
		return nil
	}
	return p.node.entries
}

// sound reports whether the values of the keys, as far as they are there, have
// been decoded: only then can they be compared.
func (p place) sound(keys ...string) bool {
	for _, key := range keys {
		if e := p.node.get(key); e != nil && e.value.bad {
			return false
		}
	}
	return true
}

// said is a decoded value as a message may show it: not when it came from a
// variable.
func (p place) said(value fmt.Stringer) string {
	if p.found && p.node.fromEnv {
		return p.node.quote()
	}
	return value.String()
}

// has reports whether the mapping has the key.
func (p place) has(key string) bool { return p.node.get(key) != nil }
