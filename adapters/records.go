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

// AuditRecord says what an operator did.
type AuditRecord struct {
	ID      int64 // ascending within a store
	At      time.Time
	By      string // what the command said of its author
	Role    string // database role that it came from; empty: not known
	Action  string
	Filter  string // a JSON object: what the command was about
	Changed int    // rows that it changed
}

// FailureCounter is implemented by state stores that can group parked messages by
// what failed.
type FailureCounter interface {
	// CountFailures groups the messages of a route (empty: of all) that have an error by route,
	// status, type and error. It looks at so many messages at most; more reports that
	// there are others.
	CountFailures(ctx context.Context, route string, most int) (failures []ParkedFailure, more bool, err error)
}

// ParkedFailure is how many parked messages have the same error.
type ParkedFailure struct {
	Route  string
	Status ParkedStatus
	Type   string
	Error  string
	Count  int
	First  time.Time // when the first of them was parked
	Last   time.Time // and the last
}

// OpenExaminer is implemented by sources and queues that can look for transactions which
// have been open for so long that rows wait for their end.
type OpenExaminer interface {
	// ExamineOpen returns a finding for each, or one that says that there is none.
	ExamineOpen(ctx context.Context) []Finding
}
