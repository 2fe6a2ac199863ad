package router

import (
	"sync/atomic"
	"time"
)

// pace bounds the messages that are in their chains at once. More than enough
// for large batches makes everything slower: what a message needs (its stack
// above all) has left the processor's caches whenever somebody turns to it again.
// With two processors, the same work took 40% more time with 6,000 at once.
type pace struct {
	lanes atomic.Int32 // that have chains
}

const (
	// paceTotal is how many chains there are beside each other in a process
	// whose lanes all move.
	paceTotal = 2048

	// paceLeast is what a lane may have, however many there are.
	paceLeast = 64

	// pacePatience is how long a lane of which no chain ends keeps to its share:
	// they may be waiting for a slow receiver, or behind a message that hangs,
	// and others must get past them. After that its share doubles, again and
	// again, until few are left; the window is the bound.
	pacePatience = 50 * time.Millisecond

	// mostDoubled is more than any window needs.
	mostDoubled = 20
)

// share is how many chains a lane may have now.
func (p *pace) share() int {
	return max(paceTotal/max(int(p.lanes.Load()), 1), paceLeast)
}

// share is how many chains the lane may have now. Call with the mutex held.
func (s *session) share() int { return s.route.router.pace.share() << s.doubled }

// begin counts n chains that are about to run. Call with the mutex held.
func (s *session) begin(n int) {
	if s.chains == 0 && n > 0 {
		s.route.router.pace.lanes.Add(1)
	}
	s.chains += n
}

// end counts n chains that have ended, or will not run. Call with the mutex
// held.
func (s *session) end(n int) {
	s.chains -= n
	s.moved = true
	if s.chains == 0 && n > 0 {
		s.route.router.pace.lanes.Add(-1)
		s.idle.Broadcast()
	}
	if s.paced && s.chains <= s.share()/2 {
		s.paced = false
		s.wakeEmitter()
	}
}

// portion takes from the queue what may run now: what is free of the lane's
// share, or nothing when that is little. The share of a lane that has not moved
// while it waited is doubled, for as long as what stands still fills it.
func (s *session) portion(batch []*item, impatient bool) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if impatient && !s.moved {
		s.doubled = min(s.doubled+1, mostDoubled)
	} else if s.chains <= s.route.router.pace.share()/2 {
		s.doubled = 0
	}
	s.moved = false
	share := s.share()
	n := share - s.chains
	if n < share/2 {
		n = 0
	}
	n = min(n, len(s.queue))
	s.paced = n < len(s.queue)
	for _, it := range s.queue[:n] {
		if it.phase == running {
			batch = append(batch, it)
		}
	}
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.begin(len(batch))
	return batch
}

// emit hands queued items to Watermill, in order and at the lane's pace.
func (s *session) emit() {
	defer s.wg.Done()
	var batch []*item
	for impatient := false; ; {
		batch = s.portion(batch[:0], impatient)
		if !s.hand(batch) {
			return
		}
		clear(batch)
		var ok bool
		if impatient, ok = s.waitForItems(); !ok {
			return
		}
	}
}

// waitForItems returns when there may be something to emit; impatient when the
// lane has waited long enough for its chains.
func (s *session) waitForItems() (impatient, ok bool) {
	s.mu.Lock()
	paced := s.paced
	s.mu.Unlock()
	if !paced {
		select {
		case <-s.emitted:
			return false, true
		case <-s.ctx.Done():
			return false, false
		}
	}
	timer := after(pacePatience)
	defer timer.stop()
	select {
	case <-s.emitted:
		return false, true
	case <-timer.C:
		return true, true
	case <-s.ctx.Done():
		return false, false
	}
}

// hand gives items to Watermill's loop; false when the session stops.
func (s *session) hand(batch []*item) bool {
	for i, it := range batch {
		select {
		case s.lane.out <- it.newMessage():
		case <-s.ctx.Done():
			s.mu.Lock()
			s.end(len(batch) - i)
			s.mu.Unlock()
			return false
		}
	}
	return true
}
