package adapters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Source is an append-only outbox table that is read by cursor. Implementations
// only read; progress is kept by a [StateStore].
//
// One goroutine calls Fetch; the other methods may be called concurrently.
type Source interface {
	// Check verifies what reading needs (table, columns, privileges, a primary
	// server) and returns an error that names what is missing and the fix.
	Check(ctx context.Context) error

	// Table identifies what cursors belong to, so that none is used for another table or in a restored copy.
	Table(ctx context.Context) (Table, error)

	// Validate checks that a cursor taken in the cluster with the same identity
	// still means something: the table has come to its position, and the row there
	// is the one that its anchor is of, or was removed with all before it. The error
	// says what to do; it is an [ErrWentBack] where the table was put back, and an
	// [ErrForeignCursor] where no source of this kind has made the cursor. Any other error
	// says nothing of the cursor: the source could not be asked ([IsInvalidCursor]).
	Validate(ctx context.Context, c Cursor) error

	// Anchored returns a cursor that no row was read for, that of a start, a seek, a rebase or an older version,
	// with the anchor of the row at its position; as it is when it has one, or no row is there.
	Anchored(ctx context.Context, c Cursor) (Cursor, error)

	// Start returns the first cursor of a new route.
	Start(ctx context.Context, at Start) (Cursor, error)

	// Fetch answers all reads in one round trip and calls take for each row. The
	// rows of a read come in the order of delivery: late rows by position, then
	// fresh ones by position; those of other reads may come in between. When take
	// returns false the rest is dropped; Fetch then returns no results.
	// Results are aligned with reads. Before it reads from a server to which it has
	// reconnected it checks the cursors as Validate does; an [ErrWentBack] says
	// that they are to be taken from the state store again.
	Fetch(ctx context.Context, reads []Read, take func(read int, row *Row) bool) ([]ReadResult, error)

	// Close releases the connections.
	Close() error
}

// ErrWentBack is the error for a table that was restored to an earlier state: by a
// restore, a failover that lost the last commits, or a power loss. Earlier cursors
// are invalid, also after the table has caught up with them.
var ErrWentBack = errors.New("the table was put back to an earlier state")

// ErrForeignCursor is the error for a cursor of another kind of source.
var ErrForeignCursor = errors.New("the cursor was not made by a source of this kind")

// IsInvalidCursor reports whether an error of [Source].Validate is about the cursor. After
// another one, such as that of a server which does not answer, the cursor may well be good.
func IsInvalidCursor(err error) bool {
	return errors.Is(err, ErrWentBack) || errors.Is(err, ErrForeignCursor)
}

// Read asks for rows of one slot.
type Read struct {
	Slot  int
	From  Cursor
	Until *Cursor // nil: up to now; otherwise only what Until covers
	Limit int     // rows at most, late and fresh together

	// AlignedTo, if not 0, is an aligned read limit: a position up to which the read is
	// likely to find no more than Limit rows. A source may then read up to there instead of
	// up to Limit, and so answer many reads that end at one position by one range scan.
	// Such a read ends there, drained or not.
	AlignedTo int64
}

// ReadResult is the end of a read.
type ReadResult struct {
	// Next is the cursor behind the last row that the read yielded, or, when
	// Drained, behind everything that its snapshot showed.
	Next    Cursor
	Drained bool // nothing more was there for this read
}

// Start is where a new route begins.
type Start struct {
	Kind StartKind
	Time time.Time // for StartTime
}

// StartKind is the kind of a [Start].
type StartKind string

// The places where a route can begin.
const (
	StartBeginning StartKind = "beginning" // with the oldest retained row
	StartEnd       StartKind = "end"       // with rows that are not visible yet
	StartTime      StartKind = "time"      // with rows created at or after a time

	// StartOffsets begins behind what a consumer group of watermill-sql's Subscriber has
	// acknowledged; only a table of watermill-sql has it.
	StartOffsets StartKind = "offsets"
)

// NoStart is the error of [Source.Start] for a place at which such a source cannot begin. It says why.
type NoStart string

// Error is the reason.
func (e NoStart) Error() string { return string(e) }

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
