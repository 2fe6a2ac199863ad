package outrider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Place is where a route is to go on; exactly one field is set.
type Place struct {
	Start    outbox.Start
	Position int64 // the first message to be delivered is the one at it, or the next
}

// String says the place in words.
func (p Place) String() string {
	switch {
	case p.Position > 0:
		return fmt.Sprintf("position %d", p.Position)
	case p.Start.Kind == outbox.StartTime:
		return p.Start.Time.UTC().Format(time.RFC3339)
	}
	return "the " + string(p.Start.Kind)
}

// Relocation is a planned move of a route's cursors, to be shown before it is
// carried out.
type Relocation struct {
	Route   string
	Action  string         // "seek" or "rebase"
	To      string         // in words
	Again   outbox.Backlog // rows that will be delivered a second time
	Skipped outbox.Backlog // rows that will not be delivered
	Owners  []string       // instances that work the route

	move outbox.Move
}

// movedMost is where counting the rows of a relocation stops.
const movedMost = 1_000_000

// PlanSeek plans to have a route go on elsewhere in its table.
func (op *Operator) PlanSeek(ctx context.Context, route string, to Place) (*Relocation, error) {
	src, err := op.source(ctx, route)
	if err != nil {
		return nil, err
	}
	lanes, err := op.lanesOf(ctx, route)
	if err != nil {
		return nil, err
	}
	cluster, err := src.Identity(ctx)
	if err != nil {
		return nil, err
	}
	_, rebased := src.(outbox.Rebaser) // of others a seek is the only way
	for _, l := range lanes {
		if rebased && !l.UpdatedAt.IsZero() && l.Cluster != cluster {
			return nil, fmt.Errorf("route %q: its cursor belongs to database cluster %q, but the source is in %q: run `outrider rebase %s` first",
				route, l.Cluster, cluster, route)
		}
	}
	start := to.Start
	if to.Position > 0 {
		start = outbox.Start{Kind: outbox.StartBeginning}
	}
	c, err := src.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	if to.Position > 0 {
		c.Position = to.Position - 1
	}
	cursors := map[int]outbox.Cursor{}
	for slot := range outbox.Slots {
		cursors[slot] = c
	}
	for _, l := range lanes {
		moved := c
		moved.Base = l.Cursor.Base // what was restored stays restored
		cursors[l.Slot] = moved
	}
	return op.relocation(ctx, src, lanes, Relocation{Action: "seek", To: to.String(),
		move: outbox.Move{Route: route, Cursors: cursors, Cluster: cluster}})
}

// rebasePatience bounds the wait for transactions that write to the table.
const rebasePatience = time.Minute

// PlanRebase plans to place a route's cursor anew in a database that was
// restored, moved or recovered to an earlier point. A cursor that is still good
// is refused unless forced. Plan and carry out close to each other.
func (op *Operator) PlanRebase(ctx context.Context, route string, force bool) (*Relocation, error) {
	src, err := op.source(ctx, route)
	if err != nil {
		return nil, err
	}
	rebaser, ok := src.(outbox.Rebaser)
	if !ok {
		return nil, fmt.Errorf("route %q: a source of its kind cannot be rebased: which rows a cursor had not covered cannot be told of every table; "+
			"`outrider seek %s` places it anew, before the first message that was not delivered", route, route)
	}
	lanes, err := op.lanesOf(ctx, route)
	if err != nil {
		return nil, err
	}
	if len(lanes) == 0 {
		return nil, fmt.Errorf("route %q has no cursor yet; there is nothing to rebase", route)
	}
	cluster, err := src.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if good := stillGood(ctx, src, lanes, cluster); good && !force {
		return nil, fmt.Errorf("route %q: its cursor is good in this database; there is nothing to rebase, unless it is forced", route)
	}
	waiting, cancel := context.WithTimeout(ctx, rebasePatience)
	defer cancel()
	cursors, err := rebaser.Rebase(waiting, lanes)
	if err != nil {
		return nil, err
	}
	return op.relocation(ctx, src, lanes, Relocation{Action: "rebase", To: "the restored database",
		move: outbox.Move{Route: route, Cursors: cursors, Cluster: cluster}})
}

// stillGood tells whether all cursors of a route mean something in the source.
func stillGood(ctx context.Context, src outbox.Source, lanes []outbox.LaneStatus, cluster string) bool {
	for _, l := range lanes {
		if !l.UpdatedAt.IsZero() && (l.Cluster != cluster || src.Validate(ctx, l.Cursor) != nil) {
			return false
		}
	}
	return true
}

// relocation completes a plan with what it will do.
func (op *Operator) relocation(ctx context.Context, src outbox.Source, lanes []outbox.LaneStatus, r Relocation) (*Relocation, error) {
	r.Route = r.move.Route
	r.move.Action, r.move.Detail = r.Action, r.To
	if named, ok := src.(outbox.TableNamer); ok {
		name, err := named.TableName(ctx)
		if err != nil {
			return nil, err
		}
		r.move.Source = name
	}
	var again, skipped []outbox.Span
	for _, l := range lanes {
		if l.Alive && l.Owner != "" && !slices.Contains(r.Owners, l.Owner) {
			r.Owners = append(r.Owners, l.Owner)
		}
		to, ok := r.move.Cursors[l.Slot]
		switch {
		case !ok || l.UpdatedAt.IsZero():
		case to.Position > l.Cursor.Position:
			skipped = append(skipped, outbox.Span{Slot: l.Slot, After: l.Cursor.Position, Upto: to.Position})
		case to.Position < l.Cursor.Position:
			again = append(again, outbox.Span{Slot: l.Slot, After: to.Position, Upto: l.Cursor.Position})
		}
	}
	counter, ok := src.(outbox.Backlogger)
	if !ok {
		return &r, nil
	}
	for _, c := range []struct {
		spans []outbox.Span
		into  *outbox.Backlog
	}{{again, &r.Again}, {skipped, &r.Skipped}} {
		if len(c.spans) == 0 {
			continue
		}
		var err error
		if *c.into, err = counter.Backlog(ctx, c.spans, movedMost); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// Relocate carries a plan out. A running instance loses the lanes at once, so
// that nothing which it settles later counts, and takes them anew at the new
// place; messages that were under way may have arrived and then come again.
// Parked messages stay.
func (op *Operator) Relocate(ctx context.Context, r *Relocation, by string) error {
	s, err := op.store(ctx, r.Route)
	if err != nil {
		return err
	}
	r.move.By = cmp.Or(by, "unknown")
	return s.Move(ctx, r.move)
}
