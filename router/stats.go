package router

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/claiming"
)

// Stats returns the counters of all routes.
func (r *Router) Stats() []adapters.RouteStats {
	all := r.routes.All()
	out := make([]adapters.RouteStats, 0, len(all))
	for _, rt := range all {
		s := rt.Stats()
		s.Paused = rt.Paused.Load()
		if at := rt.Resumed.Load(); at != nil {
			s.Resumed = *at
		}
		if text := rt.Stopped.Load(); text != nil {
			s.Stopped = *text
		}
		source, state := rt.failing()
		s.SourceError, s.StateError = errorText(source), errorText(state)
		if c := rt.claimer; c != nil {
			c.AddStats(rt.Route.Route, &s)
		}
		if rt.pace != nil {
			s.Polls, s.EmptyPolls, s.NextPoll = rt.pace.Stats()
		}
		out = append(out, s)
	}
	return out
}

// failing returns why the route's source could not be read and why its progress could not be written at the latest attempt; nil: it could.
func (w *wired) failing() (source, state error) {
	switch state = w.manager.Settler.Outage.Error(); {
	case w.reader != nil:
		source = w.reader.Outage.Error()
	case w.listener != nil:
		source = w.listener.Outage.Error()
	case w.claimer != nil:
		source = w.claimer.Outage.Error()
		if state == nil {
			state = w.claimer.Settler.Outage.Error()
		}
	}
	return source, state
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Problems says in sentences what keeps routes from delivering that is not a destination's fault: routes that cannot run, sources that
// cannot be read, progress that cannot be written.
func (r *Router) Problems() []string {
	var out []string
	for _, rt := range r.routes.All() {
		if text := rt.Stopped.Load(); text != nil {
			out = append(out, "stopped: "+*text)
		}
	}
	for _, rd := range r.readers {
		if rd.Outage.Lasts() {
			out = append(out, "a source cannot be read (route "+rd.First()+" and those beside it)")
		}
	}
	for _, l := range r.listeners {
		if l.Outage.Lasts() {
			out = append(out, "route "+l.Route.Name+" has no subscription to "+strconv.Quote(l.Cfg.Topic))
		}
	}
	for _, c := range r.claimers {
		route := "(route " + c.First() + " and those beside it)"
		if c.Outage.Lasts() {
			out = append(out, "a queue's rows cannot be claimed "+route)
		}
		if c.Settler.Outage.Lasts() {
			out = append(out, "results cannot be written to a queue's table "+route)
		}
	}
	for _, m := range r.managers {
		if m.Settler.Outage.Lasts() {
			out = append(out, "progress cannot be written to the state store")
		}
	}
	return out
}

// Trace returns what this process knows of an event: messages with that id in flight or skipped lately, and of each given row whether
// it is in flight or when it was settled. It takes each lane's lock for a moment.
func (r *Router) Trace(id string, at []adapters.RowPlace) (instance string, traces []adapters.Trace) {
	asked := map[*claiming.Claimer]bool{}
	for _, rt := range r.routes.All() {
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
