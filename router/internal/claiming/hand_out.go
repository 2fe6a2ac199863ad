package claiming

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// routed is a claimed row on its way to its lane.
type routed struct {
	row     *adapters.Row
	route   int // index of the route; -1: none matches, and it goes back
	key     exclusionKey
	cost    int64
	session *lane.Session // of its lane as the claim began; nil: none
	claimed *claimedRow
}

// handing has rows of one claim handed out to the lanes while the next claim runs: that takes most of the time of a claim.
type handing struct {
	rows    sync.WaitGroup // of the claim that is being handed out
	memory  atomic.Int64   // that these rows will take
	largest int64          // memory of the largest row that found none; theirs while rows are handed out
}

// free is the memory for rows that are not claimed yet.
func (c *Claimer) free() int64 {
	_, hot := c.hot.depth()
	return c.budget.Free() - c.handing.memory.Load() - hot
}

// receive adds the rows of a claim to the ledger, in their order, and returns those that have a route. The others go back before the
// next claim begins, which would bring them again.
func (c *Claimer) receive(w *wanted, rows []*adapters.Row) []routed {
	if len(rows) == 0 {
		return nil
	}
	out, memory := make([]routed, len(rows)), int64(0)
	for i, row := range rows {
		p := routed{row: row, route: w.route(row), cost: int64(row.Size())}
		if p.route >= 0 {
			p.cost += c.routes[p.route].Overhead()
		}
		c.rowCost += (float64(p.cost) - c.rowCost) / 64
		if p.route < 0 { // the queue does not call Match
			w.unmatched++
			p.key = exclusionKey{row: queueKeyOf(row.Claim)}
		} else {
			p.key = exclusionKeyOf(c.routes[p.route], row)
			p.session = w.sessions[p.route][adapters.SlotOf(row.Group, row.ID)]
			memory += p.cost
		}
		out[i] = p
	}
	c.handing.memory.Add(memory)
	c.ledger.expect(out)
	routed := out[:0]
	for _, p := range out {
		if p.route < 0 {
			c.ledger.refuse(p.claimed, time.Now().Add(time.Minute))
			continue
		}
		routed = append(routed, p)
	}
	return routed
}

// handOut gives the rows of a claim to the lanes, after those of the claim before, and does not wait for that.
func (c *Claimer) handOut(w *wanted, rows []routed, claim uint64) {
	c.handing.rows.Wait()
	c.rowCost = max(c.rowCost, float64(c.handing.largest)) // not as many at once again
	c.handing.largest = 0
	c.ledger.asked(len(rows) > 0)
	if len(rows) == 0 {
		return
	}
	c.handing.rows.Go(func() {
		got := false
		for _, p := range rows {
			got = c.assign(w, p) || got
			c.handing.memory.Add(-p.cost)
		}
		c.ledger.handedOut(claim)
		if got {
			failpoint.Hit(failpoint.Fetched)
		}
	})
}

// assign gives a claimed row to its lane, or back to the table; true if it got in.
func (c *Claimer) assign(w *wanted, p routed) bool {
	rt, slot := c.routes[p.route], adapters.SlotOf(p.row.Group, p.row.ID)
	if s := rt.Lanes[slot].Session(); s != nil && s == p.session && w.open[p.route][slot] && rt.Memory.Take(p.cost) {
		if s.AcceptOne(p.row, p.claimed, p.cost) {
			return true
		}
		rt.Memory.Give(p.cost)
	} else {
		c.handing.largest = max(c.handing.largest, p.cost)
	}
	c.ledger.refuse(p.claimed, time.Now().Add(lane.EvictionPause))
	return false
}
