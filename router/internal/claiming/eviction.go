package claiming

import (
	"cmp"
	"slices"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// evictionState is when room was made and how often in a row.
type evictionState struct {
	looked time.Time // when it was last looked for what does not move
	since  time.Time // since when there has been too much of it; zero: there is not
	last   time.Time // when room was made
	rounds int
}

// evictBlocked puts rows of groups that do not move back to the table when they fill
// half of what may be in memory, or when memory is spent: the youngest, until
// they fill a quarter. Their groups are left out for a while. While an address is
// down that while gets longer each time, and ends when an address is back: so
// what is behind them is reached however many they are, and nothing is claimed
// and put back again and again. Where all there is goes to one address, nothing
// is gained by it and everything stays where it is.
func (c *Claimer) evictBlocked(now time.Time, spent bool) {
	if now.Sub(c.eviction.looked) < lane.EvictionPause {
		return
	}
	c.eviction.looked = now
	if now.Sub(c.eviction.last) > 2*lane.LongestLeave {
		c.eviction.rounds = 0
	}
	blocked, total := c.blockages(now)
	if len(blocked) == 0 || total < c.claims.InMemory/2 && !spent {
		c.eviction.since = time.Time{}
		return
	}
	if c.eviction.since.IsZero() {
		c.eviction.since = now
	}
	if now.Sub(c.eviction.since) < lane.ShortDelay { // it may pass: an address is probed soon
		return
	}
	pause := lane.LeaveFor(0)
	if slices.ContainsFunc(c.routes, func(rt *lane.Route) bool { return rt.Health.Down() }) {
		pause = lane.LeaveFor(c.eviction.rounds)
		c.eviction.rounds++
	}
	c.eviction.last = now
	slices.SortFunc(blocked, func(a, b lane.Blockage) int { return cmp.Compare(holdingOf(b.Item).serial, holdingOf(a.Item).serial) })
	for i, b := range blocked {
		if total <= c.claims.InMemory/4 {
			return
		}
		oldest := i == len(blocked)-1 // stays, to be the next probe
		total -= c.putBack(b.Item, !b.Sending && !oldest, now.Add(pause))
	}
}

// blockages returns what does not move in the lanes of all routes, and how many
// rows that is.
func (c *Claimer) blockages(now time.Time) (out []lane.Blockage, total int) {
	for _, rt := range c.routes {
		patient := len(c.routes) == 1 && rt.Destination.Ordering().Static
		for _, s := range rt.Sessions() {
			for _, b := range s.Blockages(now, patient) {
				out = append(out, b)
				total += b.Waiting
			}
		}
	}
	return out, total
}
