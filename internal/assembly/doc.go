// Package assembly turns a configuration into what the router works with: sources,
// state stores, destinations, middleware and jobs.
//
// Each technology is one file, which says in a [SourceKind], a [DestinationKind] or a
// [StateKind] what can be done with a section of its type: open what it describes,
// create its tables or print the statements, publish, wake. The registries in kind.go
// have a line for each. Nothing outside of those files asks for the type of a section:
// a caller gets the kind and tests the field.
//
//	if k := b.Source("app"); k.Init != nil {
//		did, err := k.Init(ctx)
//	}
//
// [Builder.Build] makes the parts of a relay. The operator's commands in package admin
// open single ones by the same kinds. CONTRIBUTING.md has the steps to add a database
// or a destination.
package assembly
