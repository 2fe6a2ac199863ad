package form

import (
	"fmt"
	"regexp"
	"strconv"
)

// Location is a value of the file with its path.
type Location struct {
	node  *node
	name  *node  // the key of the value; nil for list items
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

// itemPath adds the index of a list's item to a path.
func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Child is the location of a key, or of the key's _file form. A missing key has the
// location of its mapping.
func (l Location) Child(key string) Location {
	path := joinPath(l.path, key)
	e, suffix := l.node.get(key), ""
	if e == nil {
		e, suffix = l.node.get(key+"_file"), "_file"
	}
	if e == nil {
		return Location{l.node, l.name, path, false}
	}
	return Location{e.value, e.key, path + suffix, true}
}

// Item is the location of a list's item. A value that may stand for a list of
// one is its own item.
func (l Location) Item(i int) Location {
	if i >= l.Len() {
		return l
	}
	return Location{l.node.items[i], nil, itemPath(l.path, i), true}
}

// Len is the number of items of a list.
func (l Location) Len() int { return len(l.node.items) }

// Key is the location of the key instead of its value.
func (l Location) Key() Location {
	if l.name != nil {
		l.node = l.name
	}
	return l
}

// Missing is the location for errors about a key that the mapping lacks.
func (l Location) Missing() Location {
	l.found = false
	return l
}

// Found reports whether the file has the value.
func (l Location) Found() bool { return l.found }

// Bad reports whether an error about the value has been reported.
func (l Location) Bad() bool { return l.node.bad }

// IsMapping reports whether the file has a mapping here.
func (l Location) IsMapping() bool { return l.found && l.node.kind == mappingNode }

// Partial reports whether keys of the mapping have been refused.
func (l Location) Partial() bool { return l.node.partial }

// Text is the text of a scalar, which may be secret.
func (l Location) Text() string { return l.node.text }

// Quote is the value as a message may show it: as written in the file, masked where it may be secret.
func (l Location) Quote() string { return l.node.quote() }

// Line is the line of the value.
func (l Location) Line() int { return l.node.line }

// Keys are the keys of a mapping, in the order of the file.
func (l Location) Keys() (keys []string) {
	if l.found {
		for _, e := range l.node.entries {
			keys = append(keys, e.key.text)
		}
	}
	return keys
}

// Has reports whether the mapping has the key.
func (l Location) Has(key string) bool { return l.node.get(key) != nil }

// Sound reports whether those of the keys that the mapping has could be decoded: only then can their values be
// compared.
func (l Location) Sound(keys ...string) bool {
	for _, key := range keys {
		if e := l.node.get(key); e != nil && e.value.bad {
			return false
		}
	}
	return true
}

// Shown is a decoded value as a message may show it: not if a variable is in it.
func (l Location) Shown(value fmt.Stringer) string {
	if l.found && l.node.fromEnv {
		return l.node.quote()
	}
	return value.String()
}
