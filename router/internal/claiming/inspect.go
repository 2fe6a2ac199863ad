package claiming

import (
	"fmt"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// Inspect returns how many rows are claimed and not settled, and which of the ledger's counts do not add up. It is for the invariants
// that tests of a whole router check.
func (c *Claimer) Inspect() (held int, problems []string) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	groups, returning := map[string]int{}, 0
	for _, h := range l.rows {
		if h.group != "" {
			groups[h.group]++
		}
		if h.state != rowOpen && h.returns() || h.holds {
			returning++
		}
	}
	if !maps.Equal(groups, l.groups) {
		complain("the ledger counts %v by group, and holds %v", l.groups, groups)
	}
	for _, v := range l.excluded {
		returning -= v.returning
	}
	if returning != 0 || len(l.ready) > len(l.rows) {
		complain("%d results are to be written of %d rows, those that return are off by %d", len(l.ready), len(l.rows), returning)
	}
	if len(l.credits) > maxCredits { // some may be of rows that others have ended
		complain("attempts of %d rows are kept", len(l.credits))
	}
	return len(l.rows), problems
}

// Trace returns what the claimer knows of rows that routes have in tables.
func (c *Claimer) Trace(at []adapters.RowPlace) (out []adapters.Trace) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.rows {
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
