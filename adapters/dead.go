package adapters

import (
	"errors"
	"time"
)

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

	// Retrying: rows in backoff as well, which failed and wait for a time, where the table says so ([DueKeeper]).
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
