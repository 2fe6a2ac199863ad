package router

import (
	"cmp"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/claiming"
)

// Trace is what this process knows of an event: what it has in flight with that id, what it
// has skipped lately, and about each of the given rows whether it is in flight or when it was
// settled. It takes each lane's lock for a moment and is meant for people's questions.
func (r *Router) Trace(id string, at []adapters.RowPlace) (instance string, traces []adapters.Trace) {
	asked := map[*claiming.Claimer]bool{}
	for _, rt := range r.routes {
		found := rt.Trace(id, at)
		if c := rt.claimer; c != nil {
			if !asked[c] {
				asked[c] = true
				traces = append(traces, c.Trace(at)...)
			}
			found = slices.DeleteFunc(found, func(t adapters.Trace) bool { // the ledger has it, with the time of its claim
				return slices.ContainsFunc(traces, func(o adapters.Trace) bool { return o.LaneRef == t.LaneRef && t.Stage == adapters.TraceWaiting })
			})
		}
		traces = append(traces, found...)
	}
	for i := range traces {
		traces[i].Instance = r.cfg.Instance
	}
	// The surest trace comes first.
	rank := map[adapters.TraceStage]int{adapters.TraceSending: 0, adapters.TraceWaiting: 1, adapters.TraceEnded: 2, adapters.TraceSkipped: 3, adapters.TraceSettled: 4}
	slices.SortStableFunc(traces, func(a, b adapters.Trace) int { return cmp.Compare(rank[a.Stage], rank[b.Stage]) })
	return r.cfg.Instance, traces
}
