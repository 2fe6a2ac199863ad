package lane

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// LongestLeave is the longest time for which groups are left out to make room.
const LongestLeave = time.Minute

// EvictionPause spaces the searches for blocked groups of a full lane.
const EvictionPause = 100 * time.Millisecond

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
	static, waves := o.Static, o.Unit == adapters.UnitWave
	total := 0
	var blocked []*Item
	for _, stall := range s.gate.Stalled(now.Add(-ShortDelay)) {
		it := owner(stall.Front)
		waits := stall.Down || it.phase == held || stall.Sending && waves && it.phase != deadLettering // for its address, like all that goes there
		if waits && static || it.phase == running && !waits && !stall.Sending {
			continue
		}
		total += stall.Waiting
		blocked = append(blocked, it)
	}
	if !static {
		alone := s.Route.health.heldAlone(s)
		total += len(alone)
		blocked = append(blocked, alone...)
	}
	// What is finished behind them takes room as well, for the cursor stands.
	total += s.progress.finishedBeyond()
	if total < s.Route.Window/2 && !spent {
		return
	}
	for _, it := range blocked {
		s.progress.number(it)
		pause := min(LongestProbe<<min(s.parking.groupOf(it).evictions, 10), LongestLeave) // its address is down, or it is being sent
		if it.phase == backoff {
			pause = ShortDelay
		}
		s.parking.park(it, adapters.ParkedWaiting, now.Add(pause), nil).evict()
	}
}
