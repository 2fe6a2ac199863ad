package adapters

import (
	"time"
)

// Found is the result of a search for an event.
type Found struct {
	Rows []FoundRow

	// Searched says in words which part of the table was searched; empty: all of it.
	// Fix is the statement that creates the missing index.
	Searched, Fix string
}

// FoundRow is a row of a table.
type FoundRow struct {
	Row   Row    // what routes match by, slot, position and times; no payload
	Table string // of a queue: which of its tables, as configured

	// Settled reports whether a cursor covers the row, or it is among the positions settled
	// beyond the cursor; nil for rows of queues, which carry a status.
	Settled func(c Cursor, beyond []int64) bool

	// Of queues.
	Status   RowStatus
	Attempts int
	Error    string
	Due      time.Time // before it the row is not attempted; zero: it is due, or not known
	Claimed  time.Time // when it was last marked as being processed; zero: never, or not known
	Done     time.Time // when it was delivered or skipped; zero: it was not, or not known
	Changed  time.Time // when it was last changed; zero: not known
}

// RowStatus is the status of a row of a [Queue], whatever the layout calls it.
type RowStatus string

// The statuses of rows.
const (
	RowWaiting    RowStatus = "waiting"    // for its first attempt, or for another
	RowProcessing RowStatus = "processing" // claimed, by this relay or another processor
	RowDone       RowStatus = "done"       // delivered or skipped
	RowDead       RowStatus = "dead"       // given up
	RowOther      RowStatus = "other"      // a status that the layout does not know: no relay touches the row
)

// RowPlace names a row that a route reads.
type RowPlace struct {
	LaneRef
	Position int64  // of log tables
	Table    string // of queues, with the Key
	Key      string
}

// Trace is the memory of one relay about an event on one route.
type Trace struct {
	LaneRef
	Position int64 // of the row, in a log table
	Instance string
	Stage    TraceStage
	Since    time.Time // when the message was read, claimed or received; zero: not known
	Attempt  int       // the one under way, or the next; 0: not known
	Error    string    // of its latest failure
	Group    string
	ID       string

	// Of a settled row: the settle that moved the cursor over it came after After, and not
	// later than By. After is zero when nothing earlier is remembered.
	After, By time.Time

	// Reason of a message that was skipped.
	Reason string
}

// TraceStage is how far a message is.
type TraceStage string

// The stages.
const (
	TraceWaiting TraceStage = "waiting" // in its lane: behind its group, for its turn, or for its next attempt
	TraceSending TraceStage = "sending" // at its destination now
	TraceEnded   TraceStage = "ended"   // finished, and about to be settled
	TraceSettled TraceStage = "settled" // finished and settled
	TraceSkipped TraceStage = "skipped" // a middleware decided that it is not delivered
)

// Span is a range of positions of one slot.
type Span struct {
	Slot  int
	After int64 // rows at or below it do not count
	Upto  int64 // rows above it do not count; 0: no bound
}

// Backlog counts the rows in spans, or the unfinished rows of a queue, whether a
// route matches them or not.
type Backlog struct {
	Rows   int
	More   bool      // there are more than Rows: counting stopped
	Oldest time.Time // when the first of the rows was created; zero: none, or unknown
}

// Add adds what lies elsewhere.
func (b *Backlog) Add(other Backlog) {
	b.Rows, b.More = b.Rows+other.Rows, b.More || other.More
	if !other.Oldest.IsZero() && (b.Oldest.IsZero() || other.Oldest.Before(b.Oldest)) {
		b.Oldest = other.Oldest
	}
}

// Upto is the backlog counted up to so many rows.
func (b Backlog) Upto(most int) Backlog {
	if b.More || b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b
}
