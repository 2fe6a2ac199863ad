package lane

import (
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// conclude decides what becomes of messages whose chains have returned: the error of each
// says how. It sends the dying ones to the poison destination; with wait it returns
// when they are sent.
func (s *Session) conclude(ended []handlers.Ended, wait bool) {
	var follow []followUp
	s.mu.Lock()
	for _, e := range ended {
		if f := s.judgeLocked(owner(e.Ticket), e.Err); !f.empty() {
			follow = append(follow, f)
		}
	}
	s.mu.Unlock()
	for _, f := range follow {
		f.run()
		switch {
		case f.dying == nil:
		case wait:
			s.sendToPoison(f.dying)
		default:
			go s.sendToPoison(f.dying)
		}
	}
}

// judgeLocked is conclude for one message, without what is left to do outside of the
// session's mutex.
func (s *Session) judgeLocked(it *Item, err error) (follow followUp) {
	v := verdict(it, err)
	if err != nil {
		s.route.notePanic(err)
		if v.Outcome == outbox.OutcomeDelivered {
			s.route.Log().Warn("a middleware failed after the message was delivered: it counts as delivered",
				"lane", s.lane.Name, "id", it.id(), "error", err)
		}
	}
	if it.phase == running {
		follow = s.outcomes.apply(it, v)
	} else {
		s.route.health.concluded(it) // parked meanwhile; it may have been a probe
	}
	if follow.dying == nil {
		s.cutoff.note(v.Outcome)
		s.runner.endLocked()
	}
	return follow
}

// verdict is outbox.VerdictOf with what the lane knows beside the error.
func verdict(it *Item, err error) outbox.Verdict {
	v := outbox.VerdictOf(err)
	switch {
	case it.Delivered():
		return outbox.Verdict{Outcome: outbox.OutcomeDelivered}
	case v.Outcome == outbox.OutcomeDelivered:
		// Nothing failed and nothing was delivered: a middleware kept it.
		return outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: "filtered"}
	}
	return v
}

// sendToPoison sends a dying message and carries out what comes of it.
func (s *Session) sendToPoison(it *Item) {
	pause, err := s.route.poison.send(s.gate.Context(), it)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.route.notePanic(err)
		s.cutoff.note(outbox.VerdictOf(err).Outcome)
	}
	s.runner.endLocked()
	s.outcomes.sent(it, pause, err)
}

// followUp is what is left to do outside of the session's mutex, because it
// concerns other sessions.
type followUp struct {
	rerun    []*Item   // their address is back
	giveBack []*charge // attempts that were their address's fault
	back     *Route    // an address of it is back
	dying    *Item     // the item itself, when it is to be sent to the poison destination
}

// empty reports whether there is nothing to do.
func (f followUp) empty() bool {
	return len(f.rerun) == 0 && len(f.giveBack) == 0 && f.back == nil && f.dying == nil
}

// run does all but the sending to the poison destination, which takes its time.
func (f followUp) run() {
	for _, c := range f.giveBack {
		c.giveBack()
	}
	for _, it := range f.rerun {
		it.rerun()
	}
	if f.back != nil {
		f.back.kick()
		f.back.readmit()
	}
}
