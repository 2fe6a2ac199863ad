// Package layout has the shapes of outbox tables that Outrider knows by name. Each is a preset: one value in one
// file, which says what the columns and statuses are called, what order is kept, and which settings of polling,
// claiming and retrying its users expect. A preset knows nothing of a database: each adapter makes its own statements
// of it.
//
// The package imports no other package of Outrider, so both the configuration and the adapters may use it. Nothing else
// asks for the name of a preset: the names that a configuration may have, their keys, the reference page and
// docs/layouts.md follow from [All].
package layout
