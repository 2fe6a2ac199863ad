package adapters

import (
	"time"
)

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
