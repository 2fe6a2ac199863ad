package adapters

import (
	"context"
	"errors"
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

// SharedRead is implemented by sources that read all slots at the price of one,
// such as tables without a column for the slot. Routes of such a source have one
// owner each: with more, every owner would read everything.
type SharedRead interface {
	SharedRead()
}

// SnapshotComparer is implemented by sources whose cursors have snapshots. Routes with order
// global need it: their slots are read as of one snapshot.
type SnapshotComparer interface {
	// Covers reports whether everything visible in the other snapshot is visible in this one.
	// It does not ask the database.
	Covers(snapshot, other string) bool
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
