package lane

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/router/internal/health"
)

const (
	// LongestLeave is the longest time for which groups are left out to make room.
	LongestLeave = time.Minute

	// EvictionPause spaces the searches for blocked groups of a full lane.
	EvictionPause = 100 * time.Millisecond

	// slowDelivery is how long a delivery takes before what is behind it counts as blocked in a
	// lane whose messages can only be given back.
	slowDelivery = health.LongestProbe
)

// LeaveFor is how long groups are left out that have been before, some times in a row.
func LeaveFor(times int) time.Duration { return min(health.LongestProbe<<min(times, 10), LongestLeave) }

// Blockage is a message that does not move, with what waits behind it.
type Blockage struct {
	Item    *Item
	Waiting int
	Sending bool
}

// EvictBlocked parks groups that do not move when they fill half the window, or when
// the route's memory is spent, so that others flow. A route with one address
// only leaves them where they are while that is down, or is slow to take a wave:
// everything else waits for it too, so parking the backlog would not help.
func (s *Session) EvictBlocked(now time.Time, spent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping || now.Sub(s.evictionLooked) < EvictionPause {
		return
	}
	s.evictionLooked = now
	o := s.Route.Destination.Ordering()
	blocked := blockedLocked(s, now.Add(-ShortDelay), o.Static, o.Unit == adapters.UnitWave)
	total := s.progress.finishedBeyond() // it takes room as well, for the cursor stands
	for _, b := range blocked {
		total += b.Waiting
	}
	if total < s.Route.Window/2 && !spent {
		return
	}
	for _, b := range blocked {
		s.progress.number(b.Item)
		pause := LeaveFor(s.parking.groupOf(b.Item).Evictions()) // its address is down, or it is being sent
		if b.Item.phase == backoff {
			pause = ShortDelay
		}
		s.parking.park(b.Item, adapters.ParkedWaiting, now.Add(pause), nil).Evict()
	}
}

// Blockages returns the messages of the session that do not move, for a feeder that
// can take them back; with patient without those that wait for their address.
func (s *Session) Blockages(now time.Time, patient bool) []Blockage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(blockedLocked(s, now.Add(-slowDelivery), patient, false), func(b Blockage) bool {
		return b.Sending && b.Item.key == "" // nothing is behind it
	})
}

// blockedLocked returns the messages that have not moved since slow; with patient without those that wait
// for their address. With waves, what is being sent waits for it like all that goes there.
func blockedLocked(s *Session, slow time.Time, patient, waves bool) (out []Blockage) {
	stalls := s.gate.Stalled(slow)
	s.Route.Health.Held(func(_ string, it *Item) {
		if it.Session == s && it.key == "" {
			stalls = append(stalls, handlers.Stall{Front: &it.Ticket, Waiting: 1})
		}
	})
	for _, stall := range stalls {
		it := owner(stall.Front)
		waits := stall.Down || it.phase == held || stall.Sending && waves && it.phase != deadLettering
		if waits && patient || it.phase == running && !waits && !stall.Sending {
			continue
		}
		out = append(out, Blockage{Item: it, Waiting: stall.Waiting, Sending: stall.Sending})
	}
	return out
}

// WithdrawLocked takes what is behind an item of its group out of the lane, and with self the
// item too, to be given back to their origin.
func (s *Session) WithdrawLocked(it *Item, self bool) []*Item {
	part := handlers.Behind
	if self {
		part = handlers.FromHere
	}
	tickets, _ := s.gate.Withdraw(&it.Ticket, part)
	out := make([]*Item, len(tickets))
	for i, t := range tickets {
		out[i] = owner(t)
		s.outcomes.takeBack(out[i])
	}
	return out
}

// Evict is WithdrawLocked for callers without the mutex: give takes what was withdrawn,
// with the mutex held. Nothing is, of an item that has ended.
func (s *Session) Evict(it *Item, self bool, give func(out []*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase != finished {
		give(s.WithdrawLocked(it, self))
	}
}
