package adapters

import (
	"context"
	"time"
)

// AuditReader is implemented by state stores that can show their audit records.
type AuditReader interface {
	// ReadAudit returns records, the newest first: at most limit of those with an id below
	// before; 0: of all.
	ReadAudit(ctx context.Context, before int64, limit int) ([]AuditRecord, error)
}

// AuditRecord is one action of an operator.
type AuditRecord struct {
	ID      int64 // ascending within a store
	At      time.Time
	By      string // what the command said of its author
	Role    string // database role that it came from; empty: not known
	Action  string
	Filter  string // a JSON object: what the command was about
	Changed int    // rows that it changed
}

// AuditWriter is implemented by state stores that keep a record of what operators do to other things than messages.
type AuditWriter interface {
	// WriteAudit writes one audit record: author, action, number of changed things, and what it was about as names and values.
	WriteAudit(ctx context.Context, by, action string, changed int, about ...string) error
}

// FailureCounter is implemented by state stores that can group parked messages by
// what failed.
type FailureCounter interface {
	// CountFailures groups the messages of a route (empty: of all) that have an error by what failed, and
	// returns so many groups at most; more reports that there are others, or that some messages were not looked
	// at. It looks at a bounded number, however many messages there are.
	CountFailures(ctx context.Context, route string, most int) (failures []ParkedFailure, more bool, err error)
}

// ParkedFailure is a group of parked messages that failed in the same way: they are of one route and one
// type, and their errors name one address and differ in numbers, ids and quoted texts only.
type ParkedFailure struct {
	Name     int64 // of the group, positive; see [ParkedFilter.Failure]
	Route    string
	Type     string
	Error    string // of one of them
	Count    int
	More     bool // there are more than Count; then ByStatus is of those that were counted
	ByStatus map[ParkedStatus]int
	First    time.Time // when the first of them was parked
	Last     time.Time // and the last
}

// Add adds what was counted of another part of the group.
func (f *ParkedFailure) Add(part ParkedFailure) {
	if f.Count == 0 || part.First.Before(f.First) {
		f.First = part.First
	}
	if f.Count == 0 || part.Last.After(f.Last) {
		f.Last = part.Last
	}
	f.Count, f.More = f.Count+part.Count, f.More || part.More
	for status, n := range part.ByStatus {
		f.ByStatus[status] += n
	}
}
