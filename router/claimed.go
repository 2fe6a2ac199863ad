package router

import "github.com/outriderhq/outrider/outbox"

// acceptClaim takes a claimed row into the lane, its memory being taken; false
// when it has to go back. Handle is what the session's origin knows it by.
func (s *session) acceptClaim(row *outbox.Row, handle any, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &item{session: s, row: row, handle: handle, slot: s.lane.slots[0], key: s.route.key(row.Group), cost: cost}
	it.Owner = it
	failed, ok := s.origin.Enter(it)
	if !ok {
		return false
	}
	it.attempt = outbox.Attempt{Route: s.route.Name, Lane: s.lane.name, Number: failed + 1}
	s.live += cost
	s.extra++
	s.enter(it)
	s.proceed()
	return true
}

// withdraw takes what is behind an item of its group out of the lane, and with self the
// item too, to be given back to their origin. Call with the mutex held.
func (s *session) withdraw(it *item, self bool) []*item {
	tickets := s.gate.Cut(&it.Ticket, self)
	out := make([]*item, len(tickets))
	for i, t := range tickets {
		out[i] = owner(t)
		s.takeBack(out[i])
	}
	return out
}

// evict is withdraw for one who does not hold the mutex: give takes what was withdrawn,
// with the mutex held. Nothing is, of an item that has ended.
func (s *session) evict(it *item, self bool, give func(out []*item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase != finished {
		give(s.withdraw(it, self))
	}
}

// takeBack ends an item's presence in the lane. Its ticket has left the gate.
func (s *session) takeBack(it *item) {
	if it.timer != nil {
		it.timer.Stop()
		it.timer = nil
	}
	s.route.health.left(it)
	it.phase = finished
	s.releaseItem(it)
}
