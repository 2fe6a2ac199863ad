package claiming

import (
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// limit is how many rows may be claimed now. Little room is not worth a claim,
// unless there has been no more for a while.
func (c *Claimer) limit(now time.Time, open bool) int {
	held := c.ledger.size()
	if held >= c.claims.InMemory/2 || !open {
		c.evictBlocked(now, !open)
		held = c.ledger.size()
	}
	if !open {
		return 0
	}
	room := c.claims.InMemory - held
	switch {
	case room >= max(min(c.poll.Batch, c.claims.InMemory/4), 1):
		c.short = time.Time{}
	case c.short.IsZero():
		c.short = now
		return 0
	case now.Sub(c.short) < lane.EvictionPause:
		return 0
	}
	// An eighth is left to payloads that are larger than those of late.
	cost := max(c.rowCost, float64(c.overhead()))
	affordable := max(int(float64(c.free())*7/8/cost), 1)
	return max(min(room, c.batch, affordable), 0)
}

// overhead is what a row of the costliest route takes beside its payload.
func (c *Claimer) overhead() (most int64) {
	for _, rt := range c.routes {
		most = max(most, rt.Overhead())
	}
	return most
}

// smallClaim is the size from which claims grow, where Poll.Batch allows that.
const smallClaim = 128

// grow doubles the next claim after one that came back full, up to Poll.Batch. One that brought a quarter keeps its size: the bound of
// a table may have been in the way. Otherwise the next one begins small: until a claim is back there is nothing to deliver.
// Polls at a fixed interval take what they may at once.
func (c *Claimer) grow(rows, limit int) {
	switch {
	case c.poll.Fixed():
		c.batch = c.poll.Batch
	case rows >= limit:
		c.batch = min(2*c.batch, c.poll.Batch)
	case rows < limit/4:
		c.batch = min(max(c.poll.Batch/8, smallClaim), c.poll.Batch)
	}
}
