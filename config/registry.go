package config

import (
	"reflect"
	"slices"
)

// kind is one kind of source, destination or middleware.
type kind struct {
	name string
	doc  string
	zero any // pointer to the zero struct
}

// registry holds the kinds that an interface type can be.
type registry struct {
	what  string // "source", for messages
	kinds []kind
}

// registries by interface type, for the decoder.
var registries = map[reflect.Type]*registry{}

// kinds is a registry that makes values of its interface.
type kinds[T any] struct{ *registry }

func newRegistry[T any](what string, list ...kind) kinds[T] {
	r := &registry{what, list}
	registries[reflect.TypeFor[T]()] = r
	return kinds[T]{r}
}

// make returns a new value of a known kind with its defaults.
func (k kinds[T]) make(name string) T {
	v, _ := reflect.TypeAssert[T](k.new(name))
	setDefaults(reflect.ValueOf(v).Elem())
	return v
}

// names lists the kinds.
func (r *registry) names() []string {
	names := make([]string, len(r.kinds))
	for i, k := range r.kinds {
		names[i] = k.name
	}
	return names
}

// new returns a pointer to a new struct of a kind, the zero Value for none.
func (r *registry) new(name string) reflect.Value {
	i := slices.IndexFunc(r.kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return reflect.Value{}
	}
	return reflect.New(reflect.TypeOf(r.kinds[i].zero).Elem())
}
