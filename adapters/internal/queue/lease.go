package queue

import (
	"slices"
	"time"
)

// owner says whose a row is that a claim has read.
type owner int

const (
	free   owner = iota
	ours         // the queue holds it, or has finished it since it was read
	theirs       // another process has it, or its state is not known here
)

// Lease is a row that was claimed and has not been settled, as the engine remembers it.
type Lease struct {
	Key     any         // as statements want it
	Stamp   time.Time   // when the row was marked, as the table keeps it; zero in a table that marks nothing
	Former  []time.Time // other times that it may have, after extensions that may have been written
	Unknown bool        // a result may have been written

	token    string // of the [adapters.Claim]
	id       string // of its group
	slot     int
	term     uint64 // of its lane
	blocking bool   // a claim has met the row, and waits for the end of the lease
}

// MarkedAt reports whether a row that was marked at a time is as the lease says.
func (l *Lease) MarkedAt(at time.Time) bool {
	return at.Equal(l.Stamp) || slices.ContainsFunc(l.Former, at.Equal)
}

// Stamps are all times that the row may have.
func (l *Lease) Stamps() []time.Time { return append([]time.Time{l.Stamp}, l.Former...) }

// leases are those of a table. The engine's lock guards them.
type leases struct {
	held     map[string]*Lease // by key
	gone     map[string]bool   // leases that have ended since the claim under way began, and whether their rows are finished; nil: none is under way
	returned []string          // groups that are to be read again
}

// keep remembers a row that was claimed.
func (l *leases) keep(key string, lease *Lease) {
	if old, ok := l.held[key]; ok {
		l.drop(key, old, true)
	}
	delete(l.gone, key)
	l.held[key] = lease
}

// drop ends a lease, unless the row has another one by now. finished is false of a row that has gone back or is lost.
func (l *leases) drop(key string, lease *Lease, finished bool) {
	if l.held[key] != lease {
		return
	}
	delete(l.held, key)
	if l.gone != nil {
		l.gone[key] = finished
	}
	if !finished || lease.blocking {
		l.returned = append(l.returned, lease.id)
	}
}

// whose says whose a row is. Of one that is held, leased says whether it is as its lease has it; marked says whether another one is being processed.
func (l *leases) whose(key string, marked bool, leased func(*Lease) bool) owner {
	if lease, ok := l.held[key]; ok {
		if leased(lease) {
			return ours
		}
		lease.blocking = true // until its session, or the next settle of a row that another process has taken back, ends it
		return theirs
	}
	switch finished, ended := l.gone[key]; {
	case finished:
		return ours
	case ended, marked: // one that has ended is lost or has gone back, and a later claim begins with it
		return theirs
	}
	return free
}
