package adapters

import (
	"context"
	"errors"
	"time"
)

// OperatorSource is a [Source] as operators, jobs and the watchdog see it. All sources of this module are one.
type OperatorSource interface {
	Source
	Examiner

	// Backlog counts the rows of the spans, at most so many in all, and finds
	// when the oldest was created.
	Backlog(ctx context.Context, spans []Span, most int) (Backlog, error)

	// CountMoves returns what moving cursors changes: a count for each move, in their order, of the rows that match;
	// nil: of all. A number above most means that there are more than so many.
	CountMoves(ctx context.Context, moves []CursorMove, most int, match func(*Row) bool) ([]MoveCount, error)

	// Unsettled returns, for each lane, rows that were visible when Start returned the mark (an end of
	// the table) and that the lane has not settled: neither its cursor covers them, nor are they among the positions
	// beyond it. Of each lane it returns at most so many; the first ones above the position After, and late ones below the
	// cursor. It reads by indexes, with statements that Fetch does not use.
	Unsettled(ctx context.Context, lanes []LaneStatus, after []int64, mark Cursor, most int) ([][]FoundRow, error)

	// Find returns at most so many rows with an event id, the newest first. Without an
	// index on ids it searches a bounded number of the newest rows.
	Find(ctx context.Context, id string, most int) (Found, error)
}

// OperatorQueue is a [Queue] as operators, jobs and the watchdog see it. All queues of this module are one.
//
// A dead row is in the queue's table, with the status that the layout has for it; nothing
// of it is in a state store. The methods need fewer rights than [Queue.Check] verifies: those that an
// operator's role is granted. They may be called while claims of any process are in progress, which do not see dead rows.
type OperatorQueue interface {
	Queue
	Examiner

	// Dead returns a page of dead rows, of one table, in the order of table, creation
	// and key, beginning after a key; with Retrying those of a table that are in backoff, behind its dead ones. It may be shorter than the limit; only an empty page
	// is the last.
	Dead(ctx context.Context, f DeadFilter) ([]DeadRow, error)

	// CountDead counts dead rows, at most so many of each table, by what routes match by; with
	// kinds false all of a table together, which reads nothing but an index. It returns an error wrapping [errors.ErrUnsupported] with kinds where
	// the type of a row can only be found out by reading its payload.
	CountDead(ctx context.Context, most int, kinds bool) (counts []DeadCount, more bool, err error)

	// ChangeDead makes rows, also those in backoff, wait again, as if they had never been attempted
	// ([ParkedRedrive]), or deletes them ([ParkedPurge]), in one transaction. Rows
	// that are no longer dead are left as they are; a row that another session has locked for
	// seconds is an error. It calls record with the
	// number of those that it changes before it commits, unless that is 0; when record
	// returns an error nothing is changed. record writes to a state store with the context that it is
	// given: a store in the same SQLite file joins the transaction.
	ChangeDead(ctx context.Context, action ParkedAction, rows []DeadKey, record func(ctx context.Context, changed int) error) (int, error)

	// Unfinished counts the rows that wait, for a first attempt or for another
	// one, or are being processed, at most so many in all, and finds when the
	// oldest was created. Dead rows do not count; rows that no route matches do.
	Unfinished(ctx context.Context, most int) (Backlog, error)

	// Processing counts the rows that any processor has marked as being processed, at most so many in each table.
	Processing(ctx context.Context, most int) (Processing, error)

	// Waiting returns rows that wait to be claimed, at most so many of each
	// table, with what routes match by and without payloads. It changes nothing.
	Waiting(ctx context.Context, most int) ([]Row, error)

	// WaitingByAge returns rows of a table that wait, the oldest first, beginning after a key; the zero key is the beginning of the
	// first table. Only an empty page is the last.
	WaitingByAge(ctx context.Context, after DeadKey, most int) ([]WaitingRow, error)

	// IsFirst reports whether a row still waits and nothing unfinished of its group is before it.
	IsFirst(ctx context.Context, at DeadKey) (bool, error)

	// Find is [OperatorSource].Find.
	Find(ctx context.Context, id string, most int) (Found, error)

	// CheckRetention verifies what removing delivered rows needs (privileges, an index) and returns an error that names what is missing and the fix.
	CheckRetention(ctx context.Context, r Retention) error

	// RetainDelivered takes one step: of each table it removes at most a batch of rows that are delivered and old, the oldest first. It waits
	// for no other session: rows that one has locked stay for a later step. Rows with another status stay at any age. The status of a
	// row says that it is finished, so routes and their cursors do not matter. Several processes may call it at the same time.
	RetainDelivered(ctx context.Context, r Retention) (Retained, error)
}

// OperatorStore is a [StateStore] as operators, jobs and the dedupe middleware see it. All stores of this module are one.
//
// Operations are executed in steps by whoever has taken them. The beginning and the end of each are
// written to the audit log, with its id and its counts; steps are not.
type OperatorStore interface {
	StateStore
	Examiner
	DedupeStore

	// StateVersion returns the version of the tables, 0 where there are none, and the
	// one that Migrate leads to. [ErrStateTooNew]: only a later release can use them.
	StateVersion(ctx context.Context) (present, newest int64, err error)

	// Cursors returns what Lanes returns of some routes (nil: of all), without its counts, which take long when there are
	// millions of parked messages.
	Cursors(ctx context.Context, routes []string) ([]LaneStatus, error)

	// CountLanes counts the parked messages of all lanes that have any.
	CountLanes(ctx context.Context) (map[LaneRef]LaneCounts, error)

	// CountFailures groups the messages of a route (empty: of all) that have an error by what failed, and
	// returns so many groups at most; more reports that there are others, or that some messages were not
	// read. It reads a bounded number, however many messages there are.
	CountFailures(ctx context.Context, route string, most int) (failures []ParkedFailure, more bool, err error)

	// RemoveInstance takes all lanes away from an instance, deletes its registration, and ends
	// the session that shows that it lives. It returns false if there is none. Nothing is lost: others
	// take the lanes with a higher epoch, and what the instance settles later is refused. One that runs joins
	// again with its next renewal.
	RemoveInstance(ctx context.Context, id, by string) (bool, error)

	// Audit writes an audit record of a command on messages outside of the store: author, action, filter, and number of changed
	// messages.
	Audit(ctx context.Context, by string, action ParkedAction, f ParkedFilter, table string, changed int) error

	// WriteAudit writes an audit record of a command on other things than messages: author, action, number of changed things, and
	// what it was about as names and values.
	WriteAudit(ctx context.Context, by, action string, changed int, about ...string) error

	// ReadAudit returns audit records, the newest first: at most limit of those with an id below
	// before; 0: of all.
	ReadAudit(ctx context.Context, before int64, limit int) ([]AuditRecord, error)

	// CreateOperation writes an operation down as planned: what was ordered, and Total. It
	// returns it with the store's times.
	CreateOperation(ctx context.Context, o Operation) (Operation, error)

	// ListOperations returns operations, the newest first.
	ListOperations(ctx context.Context, f OperationFilter) ([]Operation, error)

	// TakeOperation gives an active operation to a worker, unless a living one has it: an
	// instance that has joined lives as long as [Instance].Alive says, and every worker for as long
	// as its last lease lasts. It returns nil when there is nothing to take.
	TakeOperation(ctx context.Context, id, worker string, lease time.Duration) (*Operation, error)

	// StepOperation carries a step out and returns the operation as it is then.
	StepOperation(ctx context.Context, s OperationStep) (Operation, error)

	// StopOperation stops an active operation, between two steps; ResumeOperation makes one
	// that was stopped, or failed, go on. They return false, and change nothing, when it is not in
	// such a state; the error is [ErrNoOperation] when there is none.
	StopOperation(ctx context.Context, id, by string) (bool, error)
	ResumeOperation(ctx context.Context, id, by string) (bool, error)
}

// ErrAmbiguousID is wrapped by errors of an [OperatorQueue] for an id that names several rows of a table.
var ErrAmbiguousID = errors.New("the id names more than one row")

// DeadCount is how many dead rows have the same kind, type, aggregate type and tenant.
type DeadCount struct {
	Row  Row // these fields alone
	Rows int
}

// DeadFilter selects dead rows. Empty fields match everything.
type DeadFilter struct {
	Group  string    // as [Row.Group] has it, or as the column does
	ID     string    // event id
	Error  string    // part of the last error, in any case
	Before time.Time // died before, as [DeadRow.Died]

	// Retrying: rows in backoff as well, which failed and wait for a time, where the table says so ([Queue].KeepsDue).
	Retrying bool

	Payload bool    // payloads are wanted; otherwise only what selecting by route and type needs is read
	Limit   int     // rows at most; 0: [DefaultParkedStep]
	After   DeadKey // the page begins after it; zero: at the beginning
}

// DeadKey names one dead row.
type DeadKey struct {
	Table   string // which of the queue's tables, as configured
	Created string // as the database writes it
	Key     string // primary key, as text

	Retrying bool `json:",omitempty"` // it is in backoff
}

// DeadRow is a dead row of a queue table.
type DeadRow struct {
	At       DeadKey
	Row      Row // as a claim would return it, as far as the filter asked; a payload beyond the queue's limit is nil
	Attempts int // as the table counts them
	Error    string
	Due      time.Time // in backoff: when the next attempt is due
	Died     time.Time // when it was last changed, where the table has a column for that; else last claimed, or created
}

// WaitingRow is a row of a queue that waits to be claimed.
type WaitingRow struct {
	At       DeadKey
	Version  string    // differs after every change of the row
	Due      time.Time // zero: it is due, or the layout does not say
	Attempts int
}

// CursorMove is a planned change of one lane's cursor.
type CursorMove struct {
	Slot   int
	From   Cursor  // what is settled
	Beyond []int64 // positions settled behind From
	To     Cursor
}

// MoveCount says what a [CursorMove] changes, in rows that are visible now.
type MoveCount struct {
	Again  int  // settled, and delivered a second time
	Passed int  // above where the lane stood, and not delivered
	Late   int  // below where the lane stood, committed late, and not delivered
	More   bool // not all rows were counted
}
