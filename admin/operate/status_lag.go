package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// sumsFrom is from how many routes of a source their lags are counted at once.
const sumsFrom = 16

// sumLags counts how far the routes of each source are behind that has many, by route: each row once, however many routes are
// behind it. A source that cannot, or not in half of the time that there is, is left to [askedSources.lag].
func (op *Operator) sumLags(ctx context.Context, from map[string]string, lanes map[string][]adapters.LaneStatus) map[string]adapters.Backlog {
	ctx, cancel := context.WithTimeout(ctx, lagPatience/2)
	defer cancel()
	routes := map[string][]string{}
	for route, source := range from {
		if slices.ContainsFunc(lanes[route], func(l adapters.LaneStatus) bool { return !l.UpdatedAt.IsZero() }) {
			routes[source] = append(routes[source], route)
		}
	}
	out := map[string]adapters.Backlog{}
	for _, of := range routes {
		if len(of) < sumsFrom {
			continue
		}
		src, err := op.source(ctx, of[0])
		if err != nil {
			continue
		}
		if counter, ok := src.(adapters.LaneBacklogger); ok {
			sumSource(ctx, counter, of, lanes, out)
		}
	}
	return out
}

// sumSource counts the rows between the places of the lanes of one source, and sums what is behind each route's.
func sumSource(ctx context.Context, counter adapters.LaneBacklogger, routes []string, lanes map[string][]adapters.LaneStatus, out map[string]adapters.Backlog) {
	var spans []adapters.Span
	for _, route := range routes {
		for _, l := range lanes[route] {
			if !l.UpdatedAt.IsZero() {
				spans = append(spans, adapters.Span{Slot: l.Slot, After: l.Cursor.Position})
			}
		}
	}
	slices.SortFunc(spans, func(a, b adapters.Span) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.After, b.After))
	})
	spans = slices.Compact(spans)
	for i := range spans[1:] {
		if spans[i+1].Slot == spans[i].Slot {
			spans[i].Upto = spans[i+1].After
		}
	}
	counts, err := counter.Backlogs(ctx, spans, lagMost)
	if err != nil {
		return
	}
	behind := map[adapters.Span]adapters.Backlog{} // by slot and place
	var sum adapters.Backlog
	for i, span := range slices.Backward(spans) {
		if span.Upto == 0 {
			sum = adapters.Backlog{}
		}
		sum.Add(counts[i])
		behind[adapters.Span{Slot: span.Slot, After: span.After}] = sum
	}
	for _, route := range routes {
		var b adapters.Backlog
		for _, l := range lanes[route] {
			if !l.UpdatedAt.IsZero() {
				b.Add(behind[adapters.Span{Slot: l.Slot, After: l.Cursor.Position}])
			}
		}
		out[route] = b.Upto(lagMost)
	}
}
