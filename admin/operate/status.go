package operate

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// detailed is of how many routes the failures are looked up.
const detailed = 50

// failing finds, for the routes that need it most, the parked message to look
// at first: one that holds its group, else one that is retried, else a dead one.
func (op *Operator) failing(ctx context.Context, rows []status.RouteStatus) (map[string]*status.Failing, error) {
	out, looked := map[string]*status.Failing{}, 0
	for i := range rows {
		p := &rows[i]
		var of adapters.ParkedStatus
		switch {
		case p.Held > 0:
			of = adapters.ParkedHeld
		case p.Retrying > 0:
			of = adapters.ParkedRetrying
		case p.Dead > 0:
			of = adapters.ParkedDead
		default:
			continue
		}
		if looked++; looked > detailed {
			return out, nil
		}
		found, err := op.Parked(ctx, adapters.ParkedFilter{Route: p.Route, Status: of, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue // it was settled meanwhile
		}
		m := found[0]
		f := &status.Failing{ID: m.ID, Group: m.Group, Status: m.Status, Attempts: m.Attempts, Since: m.ParkedAt, Error: m.LastError}
		if m.Status == adapters.ParkedRetrying {
			f.Next = &m.NextAttemptAt
		}
		out[p.Route] = f
	}
	return out, nil
}

// DeadMost is where [Operator.DeadRows] stops counting the dead rows of a table, and deadRead where it
// does for layouts with the event's type in the payload, if a route selects by it: then payloads have to be read.
const (
	DeadMost = 10_000
	deadRead = 1_000
)

// DeadRows are the dead rows in the tables of queues, by route.
type DeadRows struct {
	Counts map[string]int    // those that no route matches under the empty name
	More   map[string]bool   // there are more; of a source with several routes perhaps of another one
	Errors map[string]string // by source: why its dead rows could not be counted
}

// DeadRows counts the dead rows in the tables of queues: by an index, and at most [DeadMost] of
// each table. A source that cannot be asked is an error of its own.
func (op *Operator) DeadRows(ctx context.Context) DeadRows {
	d := DeadRows{Counts: map[string]int{}, More: map[string]bool{}, Errors: map[string]string{}}
	asked := map[string]bool{}
	for _, r := range op.build.Config.Routes {
		if asked[r.From] {
			continue
		}
		asked[r.From] = true
		s := &deadSource{name: r.From}
		for _, other := range op.build.Config.Routes {
			if other.From == r.From {
				s.routes = append(s.routes, other)
			}
		}
		op.opening.Lock()
		var err error
		s.rows, err = op.build.DeadRows(ctx, op.parts, s.name)
		op.opening.Unlock()
		if err == nil && s.rows != nil {
			err = s.count(ctx, &d)
		}
		if err != nil { // also when there was no time for it: its rows are not none
			d.Errors[s.name] = err.Error()
		}
	}
	return d
}

// count adds the dead rows of a source. Of a layout with the type in the payload, which some route
// selects by, only a few are read.
func (s *deadSource) count(ctx context.Context, d *DeadRows) error {
	kinds := !reflect.ValueOf(s.routes[0].Match).IsZero() // otherwise the first one takes everything
	counts, more, err := s.rows.CountDead(ctx, DeadMost, kinds)
	for i := range counts {
		d.Counts[s.route(&counts[i].Row)] += counts[i].Rows
	}
	if errors.Is(err, errors.ErrUnsupported) {
		rows := 0
		err = s.walk(ctx, adapters.ParkedFilter{}, adapters.DeadKey{}, deadRead, false, func(page []ParkedMessage, _ []adapters.DeadKey) (bool, error) {
			for i := range page {
				d.Counts[page[i].Route]++
			}
			rows += len(page)
			return rows < deadRead, nil
		})
		more = rows >= deadRead
	}
	for _, r := range s.routes {
		d.More[r.Name] = more
	}
	return err
}

// Status returns the state of each route that wants selects (nil: of all), worst first, and the instances. running is what the
// relay's own process knows, by route, as it answers at /routes.
func (op *Operator) Status(ctx context.Context, running map[string]status.Route, wants func(route string) bool) ([]status.RouteStatus, []status.Member, error) {
	return op.StatusWith(ctx, &Samples{}, running, wants)
}

// StatusWith is [Operator.Status] with what was sampled before.
func (op *Operator) StatusWith(ctx context.Context, l *Samples, running map[string]status.Route, wants func(route string) bool) ([]status.RouteStatus, []status.Member, error) {
	lanes, err := op.Cursors(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := op.countLanes(ctx, l, lanes); err != nil {
		return nil, nil, err
	}
	instances, err := op.Instances(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.Lanes = lanes
	members := status.MembersOf(instances, lanes)
	rows := slices.DeleteFunc(status.Summarise(op.build.Config, lanes), func(p status.RouteStatus) bool { return wants != nil && !wants(p.Route) })
	if err := op.addDetails(ctx, l, running, rows, lanes); err != nil {
		return nil, nil, err
	}
	status.AddIdle(rows, instances)
	status.Judge(rows, members)
	failing, err := l.failing.get(func() (map[string]*status.Failing, error) { return op.failing(ctx, rows) })
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		rows[i].Failing = failing[rows[i].Route]
	}
	op.addTransactions(ctx, l, rows)
	return rows, members, nil
}
