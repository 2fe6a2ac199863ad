package adapters

import (
	"cmp"
	"fmt"
)

// Table identifies what a cursor belongs to among all that may share a state
// store. Both parts are kept with every cursor.
type Table struct {
	// Cluster names the database cluster, which is another one when the data is restored
	// elsewhere. Empty: cursors hold anywhere.
	Cluster string

	// Name names the table; together with Cluster it does so among all that may share a state store. It stays the same when the
	// database is restored, moved or upgraded. Retention of a table is not held back by routes that read tables of other names.
	Name string

	// Lanes says from what the lanes of rows are computed; empty: not known. Cursors of lanes that are computed from something
	// else cover other rows. It is no part of the identity.
	Lanes string
}

// NoTable is the name for routes that read no log table: those of a queue or of a
// subscriber.
const NoTable = "none"

// String names the table for people.
func (t Table) String() string {
	switch {
	case t.Name == NoTable:
		return "no table (a queue or a subscriber)"
	case t.Cluster == "":
		return cmp.Or(t.Name, "unknown")
	}
	return fmt.Sprintf("%s in cluster %s", cmp.Or(t.Name, "unknown"), t.Cluster)
}

// Equals reports whether both are the same table, however its lanes are computed.
func (t Table) Equals(other Table) bool { return t.Cluster == other.Cluster && t.Name == other.Name }

// Regrouped reports whether the lanes of a cursor of the table are known to be computed otherwise in the other one.
func (t Table) Regrouped(other Table) bool {
	return t.Lanes != "" && other.Lanes != "" && t.Lanes != other.Lanes
}

// RegroupedError is the error for a route whose lanes are computed from something else than before, and not all at one place.
func RegroupedError(route, from, now string) error {
	return fmt.Errorf("route %[1]q: its lanes were computed from %[2]s, and are now from %[3]s, so that its cursors do not say which rows were delivered. "+
		"Restore the former configuration, wait until `outrider status` shows no row behind, stop the relay and change it then; or resume from "+
		"the lane that is furthest behind, which delivers rows of the others again: outrider rebase %[1]s --adopt", route, from, now)
}

// Lowest returns the cursor that covers what all of the cursors of one table cover, so that it holds for lanes that are
// computed in any way. Of open windows it counts nothing.
func Lowest(src Source, cursors []Cursor) Cursor {
	low := cursors[0]
	for _, c := range cursors[1:] {
		if s, ok := src.(SnapshotComparer); ok && s.Covers(low.Snapshot, c.Snapshot) {
			low.Snapshot = c.Snapshot
		}
		if c.Position < low.Position {
			low.Position, low.Anchor = c.Position, c.Anchor
		}
		low.Base = min(low.Base, c.Base)
	}
	low.Window, low.Paged = "", 0
	return low
}

// Is reports whether a cursor of the table belongs to the other one: it has its
// name, unless either has none (cursors of an old version, sources whose tables have none), and is of its cluster.
func (t Table) Is(other Table) bool {
	return (t.Name == "" || other.Name == "" || t.Name == other.Name) && t.Cluster == other.Cluster
}

// OtherTable is the error for a route whose cursor belongs to another table than
// the one that it reads: rows of either would be taken for delivered.
type OtherTable struct {
	Cursor Table // the one that the cursor belongs to
	Source Table // the one that the route reads
}

// Moved reports whether the cursor's table has the name of the source's: then it
// was most likely restored elsewhere.
func (e *OtherTable) Moved() bool {
	return e.Cursor.Name == "" && e.Source.Name != NoTable || e.Cursor.Name == e.Source.Name
}

// Error names both tables.
func (e *OtherTable) Error() string {
	if e.Moved() {
		return fmt.Sprintf("its cursor belongs to database cluster %q, but the source is in %q (table %s)",
			e.Cursor.Cluster, e.Source.Cluster, e.Source.Name)
	}
	return fmt.Sprintf("its cursor belongs to %s, but it reads %s", e.Cursor, e.Source)
}

// Advice says what an operator can do about it. Rebased reports whether the source
// is a [Rebaser].
func (e *OtherTable) Advice(route string, rebased bool) string {
	const rename = ". If the cursor is another service's, which has a route of the same name in the same state store, give one of the routes another name"
	seek := fmt.Sprintf("`outrider seek %s --to beginning` (or another place)", route)
	switch {
	case e.Source.Name == NoTable:
		return fmt.Sprintf("To start again and delete the former state: `outrider route forget %s --force`", route) + rename
	case e.Moved() && rebased:
		return "The table was restored or moved, and the cursor's snapshot is not valid there. Reposition it with: outrider rebase " + route + rename
	case e.Moved():
		return "The table was restored or moved, and the cursor's snapshot means nothing there. Place it before the first message " +
			"that was not delivered: " + seek + rename
	case e.Cursor.Name == NoTable:
		return "Say where it begins: " + seek + rename
	}
	return fmt.Sprintf("If it holds the same rows, because it was renamed or moved: `outrider rebase %s --adopt`. "+
		"To start in it: %s", route, seek) + rename
}
