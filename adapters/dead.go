package adapters

import (
	"context"
	"errors"
	"time"
)

// DeadRows is implemented by queues whose dead rows operators can look at and change.
// Such a row is in the queue's table, with the status that the layout has for it; nothing
// of it is in a state store. The methods need less than [Queue.Check] asks for: what an
// operator's role is granted. They may be called while claims of any process are
// under way, which do not see dead rows.
type DeadRows interface {
	// Dead returns a page of dead rows, of one table, in the order of table, creation
	// and key, beginning after a place; with Retrying those of a table that are in backoff, behind its dead ones. It may be shorter than the limit; only an empty page
	// is the last.
	Dead(ctx context.Context, f DeadFilter) ([]DeadRow, error)

	// ChangeDead makes rows, also those in backoff, wait again, as if they had never been attempted
	// ([ParkedRedrive]), or deletes them ([ParkedPurge]), in one transaction. Rows
	// that are no longer dead are left as they are; a row that another session has locked for
	// seconds is an error. It calls record with the
	// number of those that it changes before it commits, unless that is 0; when record
	// returns an error nothing is changed. record writes to a state store with the context that it is
	// given: a store in the same SQLite file joins the transaction.
	ChangeDead(ctx context.Context, action ParkedAction, rows []DeadKey, record func(ctx context.Context, changed int) error) (int, error)
}

// ErrAmbiguousID is wrapped by errors of [DeadRows] for an id that names several rows of a table.
var ErrAmbiguousID = errors.New("the id names more than one row")

// DeadCounter is implemented by queues that can count their dead rows by an index.
type DeadCounter interface {
	// CountDead counts dead rows, at most so many of each table, by what routes match by; with
	// kinds false all of a table together, which reads nothing but an index. It returns an error wrapping [errors.ErrUnsupported] with kinds where
	// the type of a row can only be found out by reading its payload.
	CountDead(ctx context.Context, most int, kinds bool) (counts []DeadCount, more bool, err error)
}

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

// Auditor is implemented by state stores that keep a record of what operators do
// outside of them.
type Auditor interface {
	// Audit writes one record: author, action, filter, and number of changed
	// messages.
	Audit(ctx context.Context, by string, action ParkedAction, f ParkedFilter, table string, changed int) error
}
