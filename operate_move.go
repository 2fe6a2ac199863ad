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
	Route  string
	Action string   // "seek" or "rebase"
	To     string   // in words
	Owners []string // instances that work the route

	// Again are rows that are settled and will be delivered a second time, Skipped
	// rows that will not be delivered. Late are those of the skipped ones that are
	// below where the route stands: they were committed late. Rows that are not
	// committed yet do not count; they will be delivered when they are. Of a
	// route that runs the numbers are those of the moment. A route's matches are
	// not considered.
	Again, Skipped, Late outbox.Backlog

	Counted bool // the source can count; otherwise the numbers are 0

	move outbox.Move
}

// movedMost is where counting the rows of a relocation stops.
const movedMost = 1_000_000

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
	plan, err := op.relocation(ctx, src, lanes, Relocation{Action: "rebase", To: "the restored database",
		move: outbox.Move{Route: route, Cursors: cursors, Cluster: cluster}})
	if err != nil {
		return nil, err
	}
	var moves []outbox.CursorMove
	for _, l := range lanes {
		if to, ok := cursors[l.Slot]; ok && !l.UpdatedAt.IsZero() {
			moves = append(moves, outbox.CursorMove{Slot: l.Slot, From: l.Cursor, Beyond: l.Beyond, To: to})
		}
	}
	counts, counted, err := countMoves(ctx, src, moves)
	if err == nil && counted {
		plan.count(counts)
	}
	return plan, err
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
	for _, l := range lanes {
		if l.Alive && l.Owner != "" && !slices.Contains(r.Owners, l.Owner) {
			r.Owners = append(r.Owners, l.Owner)
		}
	}
	return &r, nil
}

// count completes a plan with how many rows it concerns.
func (r *Relocation) count(counts []outbox.MoveCount) {
	add := func(b *outbox.Backlog, n int) {
		b.Rows += n
		if n > movedMost || b.Rows > movedMost {
			b.Rows, b.More = movedMost, true
		}
	}
	for _, c := range counts {
		add(&r.Again, c.Again)
		add(&r.Skipped, c.Passed)
		add(&r.Skipped, c.Late)
		add(&r.Late, c.Late)
	}
	r.Counted = true
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
