package form

import (
	"reflect"
	"slices"
)

// Kinded is a value whose kind has a name: a source, a destination or middleware.
type Kinded interface{ Kind() string }

// Kind is one kind of source, destination or middleware.
type Kind struct {
	Zero Kinded // pointer to the zero struct
	Doc  string
}

// Registry holds the kinds that values of an interface type can be, in the order of the reference page.
type Registry struct {
	What  string // "source", for messages
	Kinds []Kind

	values reflect.Type
}

// NewRegistry makes the registry of an interface type.
func NewRegistry[T Kinded](what string, kinds ...Kind) *Registry {
	return &Registry{what, kinds, reflect.TypeFor[T]()}
}

// Names lists the kinds.
func (r *Registry) Names() []string {
	names := make([]string, len(r.Kinds))
	for i, k := range r.Kinds {
		names[i] = k.Zero.Kind()
	}
	return names
}

// New returns a pointer to a new struct of a kind, the zero Value if the registry has none of that name.
func (r *Registry) New(name string) reflect.Value {
	i := slices.Index(r.Names(), name)
	if i < 0 {
		return reflect.Value{}
	}
	return reflect.New(r.Kinds[i].Type())
}

// Type is the struct of the kind.
func (k Kind) Type() reflect.Type { return reflect.TypeOf(k.Zero).Elem() }

// WithDefaults gives the fields of a struct their defaults.
func WithDefaults[T any](v *T) *T {
	setDefaults(reflect.ValueOf(v).Elem())
	return v
}
