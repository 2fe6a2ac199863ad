package lane

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// Inspection is the state of a session, for the invariants that tests of a whole router check.
type Inspection struct {
	Stopping  bool
	Chains    int // that run
	Queued    int // messages whose chains are to run
	Unsettled int // messages that the session may refer to
	Live      int // messages of the parking that are in the lane
	Groups    []GroupInspection
	Settled   []adapters.Cursor // by stream

	pending map[parkedgroup.Row]bool
	groups  map[parkedgroup.Key]bool
}

// GroupInspection is the state of a group in the parking.
type GroupInspection struct {
	Group   string // empty: a message without a group
	Seq     int64  // of that message
	Loading bool
	Movable bool // its first messages may be brought back when they are due
	Due     time.Time
	Since   time.Time // of its first message, about
}

// Inspect returns the state of a session.
func Inspect(s *Session) Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := Inspection{Stopping: s.runner.stopping, Chains: s.runner.chains, Queued: len(s.runner.queue), Unsettled: s.progress.unsettled() + len(s.parking.here), Live: s.parking.live,
		pending: map[parkedgroup.Row]bool{}, groups: map[parkedgroup.Key]bool{}}
	if !s.Route.DeliverFirst {
		in.Unsettled += s.runner.chains // of what was taken out of the lane
	}
	for k, g := range s.parking.groups.All() {
		in.groups[k] = true
		if g.State() == parkedgroup.Loading {
			in.Unsettled += g.Limit()
		}
		in.Groups = append(in.Groups, GroupInspection{Group: k.Group, Seq: k.Alone.Seq, Loading: g.State() == parkedgroup.Loading, Movable: g.Movable(), Due: g.Due(), Since: g.Since})
	}
	for k := range s.progress.rows.Unpark {
		in.pending[k] = true
	}
	for k := range s.progress.rows.Park {
		in.pending[k] = true // as dead, perhaps
	}
	if s.progress.flight != nil {
		for k := range s.progress.flight.Unpark {
			in.pending[k] = true
		}
	}
	for _, str := range s.progress.streams {
		in.Settled = append(in.Settled, str.settled)
	}
	return in
}

// Knows reports whether the session knows of a parked row, or is about to remove or replace it.
func (in *Inspection) Knows(p adapters.Parked) bool {
	return in.groups[parkedgroup.KeyOf(p.Slot, p.Group, p.Seq)] || in.pending[parkedgroup.Row{Slot: p.Slot, Seq: p.Seq}]
}

// HeldAttempts returns the number of the next attempt of each message that waits for an address, by id, for tests.
func (r *Route) HeldAttempts(address string) map[string]int {
	out := map[string]int{}
	for _, s := range r.Sessions() {
		s.mu.Lock()
		r.Health.Held(func(name string, it *Item) {
			if name == address && it.Session == s {
				out[it.id()] = it.Attempt.Number
			}
		})
		s.mu.Unlock()
	}
	return out
}
