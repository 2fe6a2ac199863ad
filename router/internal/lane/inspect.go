package lane

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Inspection is what a session holds at a moment. It is for the invariants that tests
// of a whole router check: nothing else looks into a session.
type Inspection struct {
	Stopping  bool
	Chains    int // that run
	Queued    int // messages whose chains are to run
	Unsettled int // messages that the session may refer to
	Live      int // messages of the parking that are in the lane
	Groups    []GroupInspection
	Settled   []adapters.Cursor // by stream

	pending map[opKey]bool
	groups  map[groupKey]bool
}

// GroupInspection is what the session knows of a group in the parking.
type GroupInspection struct {
	Group   string // empty: a message without a group
	Seq     int64  // of that message
	Loading bool
	Movable bool // its first messages may be brought back when they are due
	Due     time.Time
	Since   time.Time // of its first message, about
}

// Inspect looks into a session.
func Inspect(s *Session) Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := Inspection{Stopping: s.runner.stopping, Chains: s.runner.chains, Queued: len(s.runner.queue), Unsettled: unsettledLocked(s), Live: s.parking.live,
		pending: map[opKey]bool{}, groups: map[groupKey]bool{}}
	for _, g := range s.parking.groups {
		in.groups[g.key] = true
		in.Groups = append(in.Groups, GroupInspection{Group: g.key.group, Seq: g.key.alone.seq, Loading: g.loading, Movable: g.movable(), Due: g.due, Since: g.since})
	}
	for k := range s.progress.ops.unpark {
		in.pending[k] = true
	}
	for k := range s.progress.ops.park {
		in.pending[k] = true // as dead, perhaps
	}
	if s.progress.flight != nil {
		for k := range s.progress.flight.unpark {
			in.pending[k] = true
		}
	}
	for _, str := range s.progress.streams {
		in.Settled = append(in.Settled, str.settled)
	}
	return in
}

// Knows reports whether the session knows of a parked row, or is about to remove or
// replace it.
func (in *Inspection) Knows(p adapters.Parked) bool {
	return in.groups[keyOf(p.Slot, p.Group, p.Seq)] || in.pending[opKey{p.Slot, p.Seq}]
}

// unsettledLocked is how many messages the session may refer to.
func unsettledLocked(s *Session) int {
	n := s.progress.unsettled() + len(s.parking.here)
	for _, g := range s.parking.groups {
		if g.loading {
			n += g.limit
		}
	}
	if !s.Route.DeliverFirst {
		n += s.runner.chains // of what was taken out of the lane
	}
	return n
}

// HeldAttempts returns the number of the next attempt of each message that waits for
// an address, by id. Like Inspect it is for tests.
func (r *Route) HeldAttempts(address string) map[string]int {
	out := map[string]int{}
	for _, s := range r.Sessions() {
		s.mu.Lock()
		r.health.mu.Lock()
		if a := r.health.addresses[address]; a != nil {
			for _, it := range a.held {
				if it.Session == s {
					out[it.id()] = it.Attempt.Number
				}
			}
		}
		r.health.mu.Unlock()
		s.mu.Unlock()
	}
	return out
}
