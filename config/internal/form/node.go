package form

import (
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
	index     map[string]int // of the entries, by key, if they are many
	items     []*node        // of a list
	tok       *token.Token
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *node }

// fewEntries are searched for a key without an index.
const fewEntries = 8

// add adds an entry to a mapping.
func (n *node) add(e entry) {
	n.entries = append(n.entries, e)
	switch {
	case n.index != nil:
		n.index[e.key.text] = len(n.entries) - 1
	case len(n.entries) > fewEntries:
		n.index = make(map[string]int, 2*fewEntries)
		for i := range n.entries {
			n.index[n.entries[i].key.text] = i
		}
	}
}

// get returns the entry of a key, nil without one.
func (n *node) get(key string) *entry {
	if n.index != nil {
		if i, ok := n.index[key]; ok {
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

// quote is the value as a message may show it: as written in the file, so
// that the value of a variable is not shown, and masked where it may be secret.
func (n *node) quote() string {
	if !n.shown {
		return masked
	}
	return strconv.Quote(Shorten(n.raw))
}
