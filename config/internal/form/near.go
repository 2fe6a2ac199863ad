package form

import (
	"slices"
	"strings"
)

// NearestKey returns the key that a misspelt or foreign one most likely means, or "".
func (d *Declaration) NearestKey(name string, keys []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
	}
	if len(name) > 64 {
		return "" // not a name
	}
	for _, key := range keys {
		if plain(key) == plain(name) {
			return key
		}
	}
	for _, meant := range d.Meanings[plain(name)] {
		if slices.Contains(keys, meant) {
			return meant
		}
	}
	return Nearest(name, keys)
}

// meant reports whether an unknown key of a mapping most likely means one that
// is missing there. It is reported once, with that one in its hint.
func (d *Declaration) meant(at Location, key string, keys []string) bool {
	return slices.ContainsFunc(at.node.entries, func(e entry) bool {
		return !slices.Contains(keys, e.key.text) && d.NearestKey(e.key.text, keys) == key
	})
}
