package lane

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// AcceptClaim takes a claimed row into the lane, its memory being taken; false
// when it has to go back. Handle is what the session's origin knows it by.
func (s *Session) AcceptClaim(row *adapters.Row, handle any, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &Item{Session: s, row: row, Handle: handle, slot: s.lane.Slots[0], key: s.route.Key(row.Group), cost: cost}
	it.Owner = it
	failed, ok := s.origin.Enter(it)
	if !ok {
		return false
	}
	it.Attempt = outbox.Attempt{Route: s.route.Name, Lane: s.lane.Name, Number: failed + 1}
	s.live += cost
	s.extra++
	s.enter(it)
	s.runner.proceed()
	return true
}

// Withdraw takes what is behind an item of its group out of the lane, and with self the
// item too, to be given back to their origin. Call with the mutex held.
func (s *Session) Withdraw(it *Item, self bool) []*Item {
	tickets := s.gate.Cut(&it.Ticket, self)
	out := make([]*Item, len(tickets))
	for i, t := range tickets {
		out[i] = owner(t)
		s.takeBack(out[i])
	}
	return out
}

// Evict is withdraw for one who does not hold the mutex: give takes what was withdrawn,
// with the mutex held. Nothing is, of an item that has ended.
func (s *Session) Evict(it *Item, self bool, give func(out []*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase != finished {
		give(s.Withdraw(it, self))
	}
}

// takeBack ends an item's presence in the lane. Its ticket has left the gate.
func (s *Session) takeBack(it *Item) {
	it.stopWaiting()
	s.route.health.left(it)
	it.phase = finished
	s.releaseItem(it)
}
