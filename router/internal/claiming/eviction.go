package claiming

import (
	"cmp"
	"slices"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// evictionState is when room was made and how often in a row.
type evictionState struct {
	searched time.Time // when blockages were last searched
	since    time.Time // since when there has been too much of it; zero: there is not
	last     time.Time // when room was made
	rounds   int
}

// evictBlocked puts rows of groups that do not move back to the table when they fill half of what may be in memory, or when memory is
// spent: the youngest, until they fill a quarter. Their groups are excluded for a while. While an address is down the exclusion gets
// longer each time, and ends when an address is back: so the rows behind are reached however many are blocked, and the same rows are not
// claimed and put back again and again. If all rows go to one address, nothing would be gained, and everything stays.
func (c *Claimer) evictBlocked(now time.Time, spent bool) {
	if now.Sub(c.eviction.searched) < lane.EvictionPause {
		return
	}
	c.eviction.searched = now
	if now.Sub(c.eviction.last) > 2*lane.LongestEviction {
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
	pause := lane.EvictionFor(0)
	if slices.ContainsFunc(c.routes, func(rt *lane.Route) bool { return len(rt.Health.Status(error.Error)) > 0 }) {
		pause = lane.EvictionFor(c.eviction.rounds)
		c.eviction.rounds++
	}
	c.eviction.last = now
	slices.SortFunc(blocked, func(a, b lane.Blockage) int { return cmp.Compare(claimOf(b.Item).serial, claimOf(a.Item).serial) })
	for i, b := range blocked {
		if total <= c.claims.InMemory/4 {
			return
		}
		oldest := i == len(blocked)-1 // stays, to be the next probe
		total -= c.putBack(b.Item, !b.Sending && !oldest, now.Add(pause))
	}
}

// blockages returns what does not move in the lanes of all routes, and how many rows that is.
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
