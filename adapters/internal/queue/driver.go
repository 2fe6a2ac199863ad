package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// Driver reads and marks the rows of one table. The engine calls one method at a time, with the queue's lock for claims.
type Driver interface {
	ID() string // the same for two names of one table

	// Describe finds out what the table's statements depend on. It is called before the first claim, after an error, and by Recover.
	Describe(ctx context.Context) error

	// Page reads entries of what is unfinished, in the order of the index, behind a position.
	Page(ctx context.Context, from Position) (Page, error)

	// Newer names groups that have got rows since it was last called. A database that cannot tell returns none: rounds find them.
	Newer(ctx context.Context) (ids []string, err error)

	// Group is the group of the messages of a group's rows.
	Group(id string) string

	// Take runs f in one transaction, and again as a whole while another one is in the way.
	Take(ctx context.Context, f func(Taker) error) error

	// Unmark has rows wait again that are marked with our token and stamp. It leaves out those that other sessions have locked, and returns them.
	Unmark(ctx context.Context, keys []any, stamp time.Time) (locked []any, err error)

	// Recover puts rows back that have been marked for longer than the queue's timeout. Those that are held stay as they are; there are so many.
	Recover(ctx context.Context, held func(key string) bool, leases int) (int, error)

	// Marked counts rows that are marked, at most one more than most, and finds for how long the first of them has been.
	Marked(ctx context.Context, most int) (rows int, longest time.Duration, err error)
}

// Taker claims rows in a transaction.
type Taker interface {
	// Read reads chosen rows that still wait, by their text. It locks them, where a database has locks, and leaves out those that are locked. Payloads
	// that are large, or beyond so many bytes in all, are left out ([Found.Left]).
	Read(ctx context.Context, chosen []*Entry, bytes int64) (map[string]Found, error)

	// Fill reads a payload that was left out; false: the row is gone.
	Fill(ctx context.Context, e *Entry, f *Found) (bool, error)

	// Mark marks rows as being processed. It names those that were no longer as Read found them, by their text. The stamp is valid also with an error.
	Mark(ctx context.Context, rows []Picked) (stamp time.Time, missing map[string]bool, err error)
}

// Alone is the id under which a table has all rows in no order. It sorts before those of groups. Entries of such rows may be in any page.
const Alone = "."

// Position is a position in the index of what is unfinished; the zero value is its beginning.
type Position struct {
	ID           string // of the last group
	In           bool   // in that group, behind a row; otherwise behind the group
	Created, Key any    // of that row; nil: at the beginning of the group
}

// Page has the entries of the index that one statement reads.
type Page struct {
	Entries []Entry
	Next    Position // behind the last one
	End     bool     // it is the end of the index
}

// Close says where the next page begins: behind this one, which is full, behind the group that it is of, or nowhere.
func (p *Page) Close(from Position, full bool) {
	switch {
	case full:
		p.Next = p.Entries[len(p.Entries)-1].position()
	case from.In:
		p.Next = Position{ID: from.ID}
	default:
		p.End = true
	}
}

// Entry is an unfinished row as a page has it.
type Entry struct {
	ID           string // of its group, or [Alone]
	Created, Key any    // for statements
	Text         string // the key as text
	Slot         int    // of a row in no order
	Marked       bool   // it is being processed
	Ours         bool   // with our token, as far as the table has one
	Stamp        time.Time
	Wait         time.Duration // until it is due
}

// position is where an entry is.
func (e *Entry) position() Position { return Position{e.ID, true, e.Created, e.Key} }

// Found is a chosen row as it is when it is claimed.
type Found struct {
	ID       string
	Attempts int
	Row      *adapters.Row // nil: Record is to be decoded
	Record   *Record
	Left     int64 // bytes of a payload that was left out
}

func (f *Found) row() *adapters.Row {
	if f.Row == nil {
		f.Row = f.Record.Decode()
	}
	return f.Row
}

// Picked is a row that is to be marked.
type Picked struct {
	*Entry
	Row *adapters.Row
}

// Backend describes a queue for its [Engine], and has the functions that write results.
type Backend[T Driver] struct {
	Name      string // for errors: mysql queue
	Layout    *layout.Queue
	Tables    []layout.Table
	Batch     int // rows that one claim takes from one table; 0: the default
	PageRows  int // entries of a page
	ClaimRows int // entries that a claim reads before it ends without result; the next one continues
	Logger    *slog.Logger

	// Settle writes results in one transaction, if the database has any, and sets Done or Locked of each row.
	Settle func(ctx context.Context, rows []*Settled[T]) error

	// Renew writes another time into rows that are marked, after it has told the engine ([Engine.Expect]), and sets Done of those that are still ours.
	Renew func(ctx context.Context, rows []*Settled[T]) error

	// Answered reports for an error that nothing was written. Otherwise it is not known.
	Answered func(err error) bool

	Refused func(err error) error                     // marks errors by which a table refuses a row
	Wrap    func(table, what string, err error) error // nil for nil
}
