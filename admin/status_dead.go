package admin

import (
	"context"
	"errors"
	"reflect"

	"github.com/outriderhq/outrider/adapters"
)

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
		if err != nil && ctx.Err() == nil {
			d.Errors[s.name] = err.Error()
		}
	}
	return d
}

// count adds the dead rows of a source. Of a layout with the type in the payload, which some route
// selects by, only a few are looked at.
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
