package form

import (
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// Declaration has everything that a configuration may hold: the structs below Root, whose tags declare the keys.
type Declaration struct {
	Root       reflect.Type
	Registries []*Registry
	Words      *strings.Replacer   // of the tags doc and enum
	Names      *regexp.Regexp      // of sources, destinations and routes
	Meanings   map[string][]string // names that keys have in other programs, without punctuation, and what they may be called here

	// Check checks a section that has been read, for which no tag suffices.
	Check func(section any, c *Checker, at Location)

	registries func() map[reflect.Type]*Registry // by interface
	vocabulary func() map[string]bool            // all words that the configuration knows
}

// New completes a declaration.
func New(d Declaration) *Declaration {
	d.registries = sync.OnceValue(func() map[reflect.Type]*Registry {
		all := map[reflect.Type]*Registry{}
		for _, r := range d.Registries {
			all[r.values] = r
		}
		return all
	})
	d.vocabulary = sync.OnceValue(func() map[string]bool {
		words := map[string]bool{AddKey: true}
		d.collectWords(d.Root, words)
		return words
	})
	return &d
}

// Registry returns the registry of an interface type; nil for any other type.
func (d *Declaration) Registry(t reflect.Type) *Registry { return d.registries()[t] }

// Fields returns the keys of a struct, with the words of their tags filled in.
func (d *Declaration) Fields(t reflect.Type) []Field {
	all := fields(t)
	out := make([]Field, len(all))
	for i, f := range all {
		f.Doc = d.Words.Replace(f.Doc)
		if f.enum != "" {
			f.Enum = strings.Split(d.Words.Replace(f.enum), "|")
		}
		out[i] = f
	}
	return out
}

func (d *Declaration) collectWords(t reflect.Type, words map[string]bool) {
	if r := d.Registry(t); r != nil {
		words["type"] = true
		for _, k := range r.Kinds {
			words[k.Zero.Kind()] = true
			d.collectWords(k.Type(), words)
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		d.collectWords(t.Elem(), words)
	case reflect.Struct:
		if _, ok := SpellingOf(t); ok {
			return
		}
		for _, f := range d.Fields(t) {
			words[f.Name] = true
			if f.Secret() {
				words[f.Name+"_file"] = true
			}
			for _, v := range f.Enum {
				words[v] = true
			}
			d.collectWords(f.Type, words)
		}
	}
}
