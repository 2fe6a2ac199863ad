package router

import "sync/atomic"

// budget is the memory that messages on their way may take in the whole
// process. It is a bound on what is read, not an allocator: the reader asks
// before it keeps a row.
type budget struct {
	limit int64
	used  atomic.Int64
	wake  func() // called when memory was given back while little was left
}

// free is what can still be taken.
func (b *budget) free() int64 { return b.limit - b.used.Load() }

// share is what one route uses of the budget: at most shareFactor times what it
// leaves free. So a route whose destination is down, and which gives nothing
// back, never takes all of it from the others.
type share struct {
	budget *budget
	used   atomic.Int64
	low    atomic.Bool // the reader waits for more room
}

// shareFactor lets a route alone use four fifths of the budget.
const shareFactor = 4

// take reserves n bytes. The first message of the process always fits, however
// large, and a route that uses nothing gets what fits.
func (s *share) take(n int64) bool {
	b := s.budget
	for {
		used := b.used.Load()
		if s.spent(n) {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			s.used.Add(n)
			return true
		}
	}
}

// give returns n bytes.
func (s *share) give(n int64) {
	s.used.Add(-n)
	b := s.budget
	after := b.used.Add(-n)
	half := b.limit / 2
	if after < half && after+n >= half || s.low.Load() && s.plenty() {
		s.low.Store(false)
		b.wake()
	}
}

// room is what the route may still take, and the most that it could have
// beside what the others use.
func (s *share) room() (free, most int64) {
	own := s.used.Load()
	others := s.budget.used.Load() - own
	most = (s.budget.limit - others) * shareFactor / (shareFactor + 1)
	return most - own, most
}

// plenty tells whether half of what the route could have is free. It is read
// in large portions or not at all: many small reads that fill every gap cost the
// database and us several times as much per row.
func (s *share) plenty() bool {
	free, most := s.room()
	return free >= most/2
}

// spent tells whether the route could not take n bytes now.
func (s *share) spent(n int64) bool {
	used, own := s.budget.used.Load(), s.used.Load()
	free := s.budget.limit - used - n
	return used > 0 && (free < 0 || own > 0 && own+n > shareFactor*free)
}
