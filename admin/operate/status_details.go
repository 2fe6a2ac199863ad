package operate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// addDetails adds to routes what is paused, how far they are behind and what the
// running relay knows of them.
func (op *Operator) addDetails(ctx context.Context, l *Samples, running map[string]status.Route, rows []status.RouteStatus, lanes []adapters.LaneStatus) error {
	pauses, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	paused := map[string][]adapters.Pause{}
	for _, p := range pauses {
		paused[p.Route] = append(paused[p.Route], p)
	}
	byRoute := map[string][]adapters.LaneStatus{}
	for _, l := range lanes {
		byRoute[l.Route] = append(byRoute[l.Route], l)
	}
	from := map[string]string{}
	for _, r := range op.build.Config.Routes {
		from[r.Name] = r.From
	}
	// A source that is down is no reason to show nothing: its numbers are left out. Asked
	// first, without the checks of a relay, which an operator's role would not pass.
	dead, _ := l.dead.get(func() (DeadRows, error) { return op.DeadRows(ctx), nil })
	lags, _ := l.lags.get(func() (map[string]routeLag, error) { return op.lags(ctx, rows, byRoute), nil })
	for i := range rows {
		r := &rows[i]
		r.DeadRows, r.DeadMore, r.DeadError = dead.Counts[r.Route], dead.More[r.Route], dead.Errors[from[r.Route]]
		r.Dead += r.DeadRows
		for _, p := range paused[r.Route] {
			s := status.Stop{Address: ShownAddress(p.Address), Since: p.At, By: p.By, Reason: p.Reason, Durable: true}
			switch s.Group = p.Group; {
			case p.OfRoute():
				r.Paused = &s
			case p.Group != "":
				r.Groups = append(r.Groups, s)
			default:
				r.Down = append(r.Down, s)
			}
		}
		r.AddRunning(running[r.Route])
		lag := lags[r.Route]
		r.Processing, r.SourceError = lag.processing, cmp.Or(lag.failed, r.SourceError)
		if lag.behind != nil {
			r.Behind, r.BehindMore = &lag.behind.Rows, lag.behind.More
			if !lag.behind.Oldest.IsZero() {
				r.Oldest = &lag.behind.Oldest
			}
		}
	}
	return nil
}

// askedSources asks sources about their routes. A source that does not answer is
// asked once, and one that shares an answer between its routes likewise.
type askedSources struct {
	op         *Operator
	from       map[string]string // source by route
	processing map[string]*status.Marked
	silent     map[string]bool
	failed     map[string]string           // why a source does not answer
	lags       map[string]adapters.Backlog // by source and the places of the lanes
	sums       map[string]adapters.Backlog // by route, of sources that count for all routes at once
}

// lagPatience bounds the time for counting what routes are behind, in all: of those
// that are left the numbers are left out.
const lagPatience = 10 * time.Second

// lag counts what a route is behind, once for all routes at one place: idle routes
// of one table are.
func (s *askedSources) lag(ctx context.Context, route string, lanes []adapters.LaneStatus) (adapters.Backlog, error) {
	var b strings.Builder
	b.WriteString(s.from[route])
	for _, l := range lanes {
		if !l.UpdatedAt.IsZero() {
			fmt.Fprintf(&b, " %d:%d", l.Slot, l.Cursor.Position)
		}
	}
	place := b.String()
	if known, ok := s.lags[place]; ok {
		return known, nil
	}
	if known, ok := s.sums[route]; ok {
		return known, nil
	}
	lag, err := s.op.LagBehind(ctx, route, lanes)
	if err == nil {
		s.lags[place] = lag
	}
	return lag, err
}
