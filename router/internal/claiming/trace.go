package claiming

import (
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// Trace is what the claimer knows of rows that routes have in tables.
func (c *Claimer) Trace(at []adapters.RowPlace) (out []adapters.Trace) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		for _, p := range at {
			if queueKeyOf(h.claim) != (queueKey{p.Table, p.Key}) || !slices.ContainsFunc(c.routes, func(r *lane.Route) bool { return r.Name == p.Route }) {
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
