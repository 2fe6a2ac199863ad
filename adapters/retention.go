package adapters

import (
	"context"
	"errors"
	"time"
)

// ErrOperatorsLogin is part of what [Retainer.CheckRetention] returns for a login that
// has what operators' commands need, and not all that a relay needs.
var ErrOperatorsLogin = errors.New("this is an operator's login: connect the relay with its own")

// ErrOwnerOnly is part of what [Retainer.CheckRetention] returns for a login that does not
// own the table, where removing takes its owner: a relay's fault, but not an operator's.
// Rights on the table do not tell the two apart: see [LoginChecker].
var ErrOwnerOnly = errors.New("only the table's owner can make and drop its partitions")

// LoginChecker is implemented by state stores in which a relay and an operator have
// different grants.
type LoginChecker interface {
	// OperatorsLogin reports whether the login has what operators' commands need, and
	// not all that a relay needs.
	OperatorsLogin(ctx context.Context) (bool, error)
}

// Retainer is implemented by sources that can remove rows that no route needs.
// Methods may be called concurrently, also by several processes: then one of
// them removes, and the others find that it does.
//
// A row may go when every route has settled it: its position is at or below the
// route's cursor and it was visible in the cursor's snapshot. Its position alone
// says nothing, because a row that was committed late may be undelivered.
type Retainer interface {
	Source

	// CheckRetention verifies what removing needs (privileges, the shape of the
	// table) and returns an error that names what is missing and the fix.
	CheckRetention(ctx context.Context, r Retention) error

	// Retain takes one step: it removes at most a batch of rows, or one
	// partition, in one short transaction which gives up when it would have to
	// wait for others. routes are all that may still need rows of the table;
	// without any, nothing is removed.
	Retain(ctx context.Context, r Retention, routes []RouteCursors) (Retained, error)
}

// Retention configures which rows of a table are removed, and how.
type Retention struct {
	Mode RetentionMode

	// Keep is the least age of a row that is removed, by the time at which it
	// was created. 0: rows may go as soon as they are settled.
	Keep time.Duration

	// Batch is the most rows of one step of [RetainRows]. 0: [DefaultRetainBatch].
	Batch int

	// PartitionRows is how many positions a new partition spans.
	// 0: [DefaultPartitionRows].
	PartitionRows int64

	// DryRun removes nothing and counts what would be.
	DryRun bool
}

// RetentionMode is how rows are removed.
type RetentionMode string

// The ways to remove rows.
const (
	RetainRows       RetentionMode = "delete"     // by primary key, in batches
	RetainPartitions RetentionMode = "partitions" // whole partitions of positions
)

// The defaults of a [Retention], for values that are zero.
const (
	DefaultRetainBatch   = 10_000
	DefaultPartitionRows = 1_000_000
)

// RouteCursors are the settled cursors of one route.
type RouteCursors struct {
	Route string

	// Cursors by slot; nil where nothing is settled, or nothing that means
	// anything in the database as it is now: such a slot keeps all its rows.
	Cursors [Slots]*Cursor
}

// Retained is the result of one step.
type Retained struct {
	Rows       int64 // removed one by one
	Partitions int   // removed as a whole

	// More reports that another step would remove more.
	More bool

	// Busy reports that the step gave up, without any harm, because another
	// process removes rows or a transaction is in the way.
	Busy bool

	// Oldest is the age of the oldest row that is left, as far as the first row
	// of each slot tells. 0: there is none.
	Oldest time.Duration

	// Held says, by route, for how long it has kept a row which is old
	// enough to go.
	Held map[string]time.Duration

	// DatedAhead is the one of the oldest rows that are left which is dated
	// furthest in the future. Such a row goes when one behind it is old enough.
	DatedAhead DatedAhead

	// Waiting counts partitions that no route needs, and that could not be dropped
	// because of what InTheWay says.
	Waiting  int
	InTheWay string

	// Stray counts rows in the partition for positions that have no other, up to
	// a bound; Ahead is how many positions have a partition before they are
	// drawn. Both are 0 for tables without partitions.
	Stray int64
	Ahead int64
}

// And is the result of a step on several tables.
func (r Retained) And(of Retained) Retained {
	r.Rows += of.Rows
	r.More, r.Busy, r.Oldest = r.More || of.More, r.Busy || of.Busy, max(r.Oldest, of.Oldest)
	return r
}

// DatedAheadLeast is the least distance of a creation time in the future at
// which it is ignored as the row's age: clocks differ.
const DatedAheadLeast = 10 * time.Minute

// DatedAhead is a row whose time of creation is in the future.
type DatedAhead struct {
	Slot     int // 0 where the table has none
	Position int64
	By       time.Duration // how far, at most 100 years; 0: there is no such row
	Fix      string        // statement that corrects its date
}

// RetentionStats is what retention has done to a source's table since the
// process began, and what it found last.
type RetentionStats struct {
	Source     string
	Rows       int64
	Partitions int64
	Errors     int64
	Oldest     time.Duration
	Held       map[string]time.Duration
	DatedAhead DatedAhead
	Waiting    int
	InTheWay   string
	Stray      int64
	Ahead      int64
}
