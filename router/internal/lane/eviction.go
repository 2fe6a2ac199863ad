package lane

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/router/internal/health"
)

const (
	// LongestEviction is the longest time for which groups stay out of the lane to make room.
	LongestEviction = time.Minute

	// EvictionPause spaces the searches for blocked groups of a full lane.
	EvictionPause = 100 * time.Millisecond

	// slowDelivery is after how long a delivery blocks what is behind it, in a lane whose messages can only be given back.
	slowDelivery = health.LongestProbe
)

// EvictionFor is how long groups stay out that were evicted before, a number of times in a row.
func EvictionFor(times int) time.Duration {
	return min(health.LongestProbe<<min(times, 10), LongestEviction)
}

// Blockage is a message that does not move, with what waits behind it.
type Blockage struct {
	Item    *Item
	Waiting int
	Sending bool
}

// EvictBlocked parks groups that do not move when they fill half the window, or when the route's memory is spent, so that others flow. A
// route with a single address parks nothing while that is down or slow to take a wave: everything else waits for it too.
func (s *Session) EvictBlocked(now time.Time, spent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping || now.Sub(s.evictionSearched) < EvictionPause {
		return
	}
	s.evictionSearched = now
	o := s.Route.Destination.Ordering()
	blocked := blockedLocked(s, now.Add(-ShortDelay), o.Static, o.Unit == adapters.UnitWave)
	total := s.progress.finishedBeyond() // it takes room as well: the cursor does not move over it
	for _, b := range blocked {
		total += b.Waiting
	}
	if total < s.Route.Window/2 && !spent {
		return
	}
	for _, b := range blocked {
		s.progress.number(b.Item)
		pause := EvictionFor(s.parking.groupOf(b.Item).Evictions()) // its address is down, or it is being sent
		if b.Item.phase == backoff {
			pause = ShortDelay
		}
		s.parking.park(b.Item, adapters.ParkedWaiting, now.Add(pause), nil).Evict()
	}
}

// Blockages returns the messages of the session that do not move, for a feeder that can take them back; with patient without those that
// wait for their address.
func (s *Session) Blockages(now time.Time, patient bool) []Blockage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(blockedLocked(s, now.Add(-slowDelivery), patient, false), func(b Blockage) bool {
		return b.Sending && b.Item.key == "" // nothing is behind it
	})
}

// blockedLocked returns the messages that have not moved since slow; with patient without those that wait for their address. With waves,
// messages that are being sent wait for it, too.
func blockedLocked(s *Session, slow time.Time, patient, waves bool) (out []Blockage) {
	stalls := s.gate.Stalled(slow)
	s.Route.Health.Held(func(_ string, it *Item) {
		if it.Session == s && it.key == "" {
			stalls = append(stalls, handlers.Stall{Front: &it.Ticket, Waiting: 1})
		}
	})
	for _, stall := range stalls {
		it := owner(stall.Front)
		if it.phase == finished { // dead, and about to be written
			continue
		}
		waits := stall.Down || it.phase == held || stall.Sending && waves && it.phase != deadLettering
		if waits && patient || it.phase == running && !waits && !stall.Sending {
			continue
		}
		out = append(out, Blockage{Item: it, Waiting: stall.Waiting, Sending: stall.Sending})
	}
	return out
}

// WithdrawLocked takes what is behind an item of its group out of the lane, and with self the item too, to be given back to their origin.
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

// Evict is WithdrawLocked for callers without the mutex: give takes what was withdrawn, with the mutex held. It withdraws nothing of an
// item that has ended.
func (s *Session) Evict(it *Item, self bool, give func(out []*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase != finished {
		give(s.WithdrawLocked(it, self))
	}
}

// DeathLost has what is behind the item in its group go back before the group goes on: the item is dead, but its row was no longer ours when that
// was to be written, so it may be tried again. give takes what was withdrawn, with the session's mutex held.
func (it *Item) DeathLost(give func(out []*Item)) {
	s := it.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	give(s.WithdrawLocked(it, false))
	it.DeathWritten()
}
