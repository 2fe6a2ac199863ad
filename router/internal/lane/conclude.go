package lane

import (
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/health"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// conclude carries out the verdicts of messages whose chains have returned. It sends dead messages to the poison destination; with wait
// it returns when they are sent.
func (s *Session) conclude(ended []handlers.Ended, wait bool) {
	var follow []followUp
	s.mu.Lock()
	for _, e := range ended {
		if f := s.outcomes.judge(owner(e.Ticket), e.Err); !f.empty() {
			follow = append(follow, f)
		}
	}
	s.mu.Unlock()
	for _, f := range follow {
		f.run(s.Route)
		switch {
		case f.dead == nil:
		case wait:
			s.sendToPoison(f.dead)
		default:
			go s.sendToPoison(f.dead)
		}
	}
}

// sendToPoison sends a dead message and carries out the result.
func (s *Session) sendToPoison(it *Item) {
	pause, err := s.Route.poison.send(s.gate.Context(), it)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.Route.logPanic(err)
		s.runner.endedAs(outbox.VerdictOf(err).Outcome)
	}
	s.runner.endLocked()
	s.outcomes.sent(it, pause, err)
}

// followUp has the work that is left to do outside of the session's mutex, because it concerns other sessions.
type followUp struct {
	health.Effects[*Item, *Charge]
	dead *Item // the item itself, when it is to be sent to the poison destination
}

func (f *followUp) empty() bool { return f.dead == nil && f.Empty() }

// run does all but the sending to the poison destination, which may take long.
func (f *followUp) run(r *Route) {
	for _, c := range f.GiveBack {
		c.giveBack()
	}
	for _, it := range f.Resume {
		it.Rerun()
	}
	if f.Back {
		r.Kick()
		r.readmit()
	}
}

// Rerun runs the chain of an item again, when its pause is over or its address is back; false if it has left the lane.
func (it *Item) Rerun() bool {
	s := it.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping || it.gone() {
		return false
	}
	it.resume()
	s.parking.repay(it)
	s.runner.pushLocked(it)
	s.runner.proceedLocked()
	return true
}

// giveBack returns the attempts to the message, because its address was at fault. A chain may have read the number of its attempt, so the
// message gets them when the chain has returned; a parked message, when its row is read.
func (c *Charge) giveBack() {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch it := c.item; {
	case c.handle == nil && s.lost:
	case it != nil && it.death != nil: // too late
	case c.handle != nil:
		for range c.n {
			if again := s.origin.GiveBack(c.handle); again != nil && again.Session == s {
				again.credit(1)
			}
		}
	case it != nil:
		it.credit(c.n)
	case c.row != parkedgroup.Row{}:
		s.parking.credit(c)
	}
}

// readmit lets groups that were parked or put back to make room try again.
func (r *Route) readmit() {
	r.Feeder.AddressBack()
	for _, s := range r.Sessions() {
		s.mu.Lock()
		s.parking.groups.Readmit()
		s.mu.Unlock()
	}
}
