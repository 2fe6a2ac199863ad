package router

import (
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// What a session does otherwise with messages that were claimed from a queue:
// whatever becomes of them is written to the queue's table, and none of it to
// the parking.

// leaveKey is what is left out of claims when a row goes back.
func (r *route) leaveKey(row *outbox.Row) leaveKey {
	if g := r.key(row.Group); g != "" {
		return leaveKey{group: g}
	}
	return leaveKey{row: queueKeyOf(row.Claim)}
}

// acceptClaim takes a claimed row into the lane, its memory being taken; false
// when it has to go back.
func (s *session) acceptClaim(p placing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &item{session: s, row: p.row, claim: p.holding, slot: s.lane.slots[0], key: s.route.key(p.row.Group), cost: p.cost}
	it.Owner = it
	failed, ok := s.route.claimer.ledger.enter(p.holding, it)
	if !ok {
		return false
	}
	it.attempt = outbox.Attempt{Route: s.route.Name, Lane: s.lane.name, Number: failed + 1}
	s.live += p.cost
	s.extra++
	s.enter(it)
	s.proceed()
	return true
}

// endClaim notes what the queue is to be told of a row that is done or dead.
func (s *session) endClaim(it *item, outcome outbox.Outcome, cause error) {
	s.route.claimer.ledger.conclude(ending{h: it.claim, outcome: outcome, attempts: it.attempt.Number, err: cause})
}

// retryClaim counts the attempt and gives the row back to the table until it is
// due, with everything of its group that is behind it. There are no attempts in
// between: the table would not know of them. What the receiver refused in the
// same request has failed as well, although its chain may not have returned yet;
// a last attempt is left to the row's own chain.
func (s *session) retryClaim(it *item, at time.Time, cause error) {
	ends := []ending{{h: it.claim, outcome: outbox.Retry, attempts: it.attempt.Number, at: at, err: cause}}
	for _, t := range s.gate.Cut(&it.Ticket, true) {
		x := owner(t)
		s.takeBack(x)
		if x == it {
			continue
		}
		end := ending{h: x.claim, outcome: outbox.Put}
		if _, failed := x.Failed(); failed && outbox.AnsweredBy(cause) && x.attempt.Number < s.route.Attempts {
			end = ending{h: x.claim, outcome: outbox.Retry, attempts: x.attempt.Number, at: at, err: cause}
			s.route.stats.retried.Add(1)
		}
		ends = append(ends, end)
	}
	s.route.claimer.ledger.conclude(ends...)
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

// putBack returns what is behind an item of its group to the table, and with
// self the item too, to make room. It tells how many rows that were.
func (s *session) putBack(it *item, self bool, until time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || it.phase == finished {
		return 0
	}
	l := s.route.claimer.ledger
	var ends []ending
	for _, t := range s.gate.Cut(&it.Ticket, self) {
		s.takeBack(owner(t))
		ends = append(ends, ending{h: owner(t).claim, outcome: outbox.Put})
	}
	l.relieve(it.claim.key, until)
	l.conclude(ends...)
	return len(ends)
}

// loseClaim drops a row that is no longer claimed: somebody else has it or will
// have it. What is behind it goes back, to come after it again. If it is being
// sent, there is nothing that could be done about it.
func (s *session) loseClaim(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase == finished {
		return
	}
	l := s.route.claimer.ledger
	var ends []ending
	for _, t := range s.gate.Cut(&it.Ticket, true) {
		x := owner(t)
		s.takeBack(x)
		if x == it {
			l.forget(x.claim)
			continue
		}
		ends = append(ends, ending{h: x.claim, outcome: outbox.Put})
	}
	l.conclude(ends...)
}

// giveBackClaim returns an attempt that was charged to a row although its address
// was at fault. Call with the mutex held.
func (s *session) giveBackClaim(h *holding) {
	again := s.route.claimer.ledger.giveBack(h)
	switch {
	case again == nil || again.session != s:
	case again.phase == running:
		again.owed++
	default:
		again.giveBack(1)
	}
}
