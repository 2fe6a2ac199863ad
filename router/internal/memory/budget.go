// Package memory bounds the memory of all messages in flight in the process.
package memory

import "sync/atomic"

// Budget is the memory that messages in flight may take in the whole process. It is not an allocator: readers take memory before they keep
// a row.
type Budget struct {
	Limit int64
	Used  atomic.Int64
	Wake  func() // called when memory was given back while little was left
}

// Free returns what can still be taken.
func (b *Budget) Free() int64 { return b.Limit - b.Used.Load() }

// Account counts the memory of one route: at most shareFactor times what it leaves free. So a route whose destination is down, and
// which gives nothing back, never takes all of it.
type Account struct {
	Budget *Budget
	used   atomic.Int64
	Low    atomic.Bool // the reader waits for more room
}

// shareFactor lets a route alone use four fifths of the budget.
const shareFactor = 4

// Take reserves n bytes. The first message of the process always fits, and a route that uses nothing gets what fits.
func (s *Account) Take(n int64) bool {
	b := s.Budget
	for {
		used := b.Used.Load()
		if s.Spent(n) {
			return false
		}
		if b.Used.CompareAndSwap(used, used+n) {
			s.used.Add(n)
			return true
		}
	}
}

// Give returns n bytes.
func (s *Account) Give(n int64) {
	s.used.Add(-n)
	b := s.Budget
	after := b.Used.Add(-n)
	half := b.Limit / 2
	if after < half && after+n >= half || s.Low.Load() && s.Plenty() {
		s.Low.Store(false)
		b.Wake()
	}
}

// Room returns what the route may still take, and the most that it could have in addition to what other routes use.
func (s *Account) Room() (free, most int64) {
	own := s.used.Load()
	others := s.Budget.Used.Load() - own
	most = (s.Budget.Limit - others) * shareFactor / (shareFactor + 1)
	return most - own, most
}

// Plenty reports whether half of what the route could have is free. Routes are read in large portions or not at all: many small reads cost the
// database and the relay several times as much per row.
func (s *Account) Plenty() bool {
	free, most := s.Room()
	return free >= most/2
}

// Spent reports whether the route could not take n bytes now.
func (s *Account) Spent(n int64) bool {
	used, own := s.Budget.Used.Load(), s.used.Load()
	free := s.Budget.Limit - used - n
	return used > 0 && (free < 0 || own > 0 && own+n > shareFactor*free)
}
