package claiming

import (
	"github.com/outriderhq/outrider/adapters"
)

// Trace is what the claimer knows of rows that routes have in tables.
func (c *Claimer) Trace(at []adapters.RowPlace) (out []adapters.Trace) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		for _, p := range at {
			if queueKeyOf(h.claim) != (queueKey{p.Table, p.Key}) || !c.serves(p.Route) {
				continue
			}
			t := adapters.Trace{LaneRef: p.LaneRef, ID: p.Key, Group: h.group, Stage: adapters.TraceWaiting, Since: h.since, Attempt: h.counts + 1}
			if h.state != rowOpen {
				t.Stage = adapters.TraceEnded
			}
			out = append(out, t)
		}
	}
	return out
}

// serves reports whether the claimer claims for a route.
func (c *Claimer) serves(route string) bool {
	for _, r := range c.routes {
		if r.Name == route {
			return true
		}
	}
	return false
}
