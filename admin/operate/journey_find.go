package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Tracer is the memory of the relay's own process.
type Tracer func(id string, at []adapters.RowPlace) (instance string, traces []adapters.Trace)

// FoundMost is how many rows and parked messages with one id are shown of each source: ids of
// a log table need not be unique.
const FoundMost = 20

// Journey finds an event in the tables of all sources and in the state stores. Only the
// process of a relay knows what is in flight.
func (op *Operator) Journey(ctx context.Context, id string) (*Journey, error) {
	return op.JourneyWith(ctx, id, nil)
}

// search is a journey that is being looked for.
type search struct {
	op     *Operator
	id     string
	j      *Journey
	lanes  map[adapters.LaneRef]*adapters.LaneStatus
	parked []adapters.Parked
	rows   []foundRow
	traces []adapters.Trace
	source map[string]string // by route
}

// foundRow is a row, and the route whose progress is compared with it; empty: no route matches it.
type foundRow struct {
	*adapters.FoundRow
	source, route string
	feed          assembly.Feed
}

// JourneyWith is [Operator.Journey] with what a process has in memory; nil: nothing.
func (op *Operator) JourneyWith(ctx context.Context, id string, trace Tracer) (*Journey, error) {
	s := &search{op: op, id: id, j: &Journey{ID: id, Places: []EventPlace{}, Notes: []string{}},
		source: map[string]string{}}
	s.find(ctx)
	if trace != nil {
		var at []adapters.RowPlace
		for _, r := range s.rows {
			if r.route != "" {
				at = append(at, r.place())
			}
		}
		s.j.Instance, s.traces = trace(id, at)
	}
	if err := s.findLanes(ctx); err != nil {
		return nil, err
	}
	// After the cursors: what one has passed because it was parked meanwhile is found here, and not taken for delivered.
	for _, store := range op.stores {
		parked, err := store.ListParked(ctx, adapters.ParkedFilter{ID: id, Limit: FoundMost}, 0)
		if err != nil {
			return nil, err
		}
		s.parked = append(s.parked, parked...)
	}
	s.judge(ctx)
	return s.j, nil
}

// findLanes reads the lanes of the routes that have something of the event.
func (s *search) findLanes(ctx context.Context) error {
	routes := []string{}
	for i := range s.rows {
		routes = append(routes, s.rows[i].route)
	}
	for i := range s.traces {
		routes = append(routes, s.traces[i].Route)
	}
	lanes, err := s.op.Cursors(ctx, routes)
	s.lanes = make(map[adapters.LaneRef]*adapters.LaneStatus, len(lanes))
	for i := range lanes {
		s.lanes[lanes[i].LaneRef] = &lanes[i]
	}
	return err
}

func (r *foundRow) place() adapters.RowPlace {
	return adapters.RowPlace{LaneRef: adapters.LaneRef{Route: r.route, Slot: r.Row.Slot}, Position: r.Row.Position, Table: r.Table, Key: r.Row.ID}
}

// find looks into the tables of the sources.
func (s *search) find(ctx context.Context) {
	routes := map[string][]config.Route{}
	var names []string
	for _, r := range s.op.build.Config.Routes {
		s.source[r.Name] = r.From
		if routes[r.From] == nil {
			names = append(names, r.From)
		}
		routes[r.From] = append(routes[r.From], r)
	}
	for _, name := range names {
		feed, found, err := s.op.find(ctx, name, s.id)
		switch {
		case errors.Is(err, errNoTable):
			s.addNote("source %s has no table that can be searched: only what is parked or in flight is known", name)
			continue
		case err != nil:
			s.addNote("source %s could not be searched: %v", name, err)
			continue
		case found.Searched != "":
			s.addNote("source %s: %s", name, found.Searched)
			if found.Fix != "" {
				s.addNote("to find every row of source %s: %s", name, found.Fix)
			}
		}
		for i := range found.Rows {
			s.match(foundRow{FoundRow: &found.Rows[i], source: name, feed: feed}, routes[name])
		}
	}
}

func (s *search) addNote(format string, args ...any) {
	s.j.Notes = append(s.j.Notes, fmt.Sprintf(format, args...))
}

// match notes the routes that want a row: the first one, of a queue.
func (s *search) match(row foundRow, routes []config.Route) {
	wanted := false
	for _, r := range routes {
		if wanted && row.Settled == nil || !assembly.Matcher(r.Match)(&row.Row) {
			continue
		}
		wanted, row.route = true, r.Name
		s.rows = append(s.rows, row)
	}
	if !wanted {
		s.rows = append(s.rows, row)
	}
}

var errNoTable = errors.New("it has no table")

// find finds an event in the table of a source.
func (op *Operator) find(ctx context.Context, source, id string) (feed assembly.Feed, found adapters.Found, err error) {
	if feed, err = op.Feed(ctx, source); err != nil {
		return feed, found, err
	}
	switch {
	case feed.Queue != nil:
		found, err = feed.Queue.Find(ctx, id, FoundMost)
	case feed.Source != nil:
		found, err = feed.Source.Find(ctx, id, FoundMost)
	default:
		err = errNoTable
	}
	return feed, found, err
}

// takeParked returns and removes the parked message of a row on its route.
func (s *search) takeParked(r *foundRow) *adapters.Parked {
	i := slices.IndexFunc(s.parked, func(p adapters.Parked) bool {
		return p.Route == r.route && (p.Position == r.Row.Position || p.Position == 0)
	})
	if i < 0 {
		return nil
	}
	p := s.parked[i]
	s.parked = slices.Delete(s.parked, i, i+1)
	return &p
}

// takeTrace returns and removes what the memory says of a row on its route.
func (s *search) takeTrace(r *foundRow) *adapters.Trace {
	i := slices.IndexFunc(s.traces, func(t adapters.Trace) bool {
		return t.Route == r.route && (r.Settled == nil || t.Slot == r.Row.Slot && t.Position == r.Row.Position)
	})
	if i < 0 {
		return nil
	}
	t := s.traces[i]
	s.traces = slices.Delete(s.traces, i, i+1)
	return &t
}

// ahead counts what is not settled before a row in its lane.
func (s *search) ahead(ctx context.Context, p *EventPlace, r *foundRow, l *adapters.LaneStatus) {
	if r.feed.Source == nil || r.Row.Position <= l.Cursor.Position {
		return
	}
	b, err := r.feed.Source.Backlog(ctx, []adapters.Span{{Slot: l.Slot, After: l.Cursor.Position, Upto: r.Row.Position - 1}}, lagMost)
	if err != nil {
		s.addNote("source %s: the rows before it could not be counted: %v", r.source, err)
		return
	}
	p.Ahead, p.AheadMore = &b.Rows, b.More
}

// judge makes the places of what was found.
func (s *search) judge(ctx context.Context) {
	for i := range s.rows {
		r := &s.rows[i]
		switch {
		case r.route == "":
			p := r.eventPlace(EventUnwanted, "no route of the configuration matches it: the row stays as it is")
			s.j.Places = append(s.j.Places, p)
		case r.Settled == nil:
			s.j.Places = append(s.j.Places, s.inQueue(r))
		default:
			s.j.Places = append(s.j.Places, s.inLog(ctx, r))
		}
	}
	for i := range s.parked {
		p := EventPlace{Source: s.source[s.parked[i].Route]}
		p.parked(&s.parked[i])
		s.j.Places = append(s.j.Places, p)
	}
	for i := range s.traces {
		t := &s.traces[i]
		p := EventPlace{Route: t.Route, Source: s.source[t.Route], Slot: &t.Slot, Group: t.Group}
		s.owned(&p, s.lanes[t.LaneRef])
		p.traced(t)
		s.j.Places = append(s.j.Places, p)
	}
	slices.SortStableFunc(s.j.Places, func(a, b EventPlace) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Route, b.Route))
	})
}
