package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Relocation is a planned move of a route's cursors, to be shown before it is
// carried out.
type Relocation struct {
	Route  string
	Action string   // "seek" or "rebase"
	To     string   // in words
	Owners []string // instances that work the route

	// Again are rows that are settled and will be delivered a second time, Skipped
	// rows that will not be delivered. Late are those of the skipped ones that are
	// below the route's cursor: they were committed late. Rows that are not
	// committed yet do not count; they will be delivered when they are. Of a
	// route that runs the numbers are those of the moment. Rows that the route does
	// not match do not count.
	Again, Skipped, Late adapters.Backlog

	Counted bool // the source can count; otherwise the numbers are 0

	move adapters.Move
}

// movedMost is where counting the rows of a relocation stops.
const movedMost = 1_000_000

// rebasePatience bounds the wait for transactions that write to the table.
const rebasePatience = time.Minute

// standing returns what a route reads by cursor, its lanes, and the table that it reads.
func (op *Operator) standing(ctx context.Context, route string) (src adapters.OperatorSource, lanes []adapters.LaneStatus, table adapters.Table, err error) {
	if src, err = op.source(ctx, route); err != nil {
		return nil, nil, table, err
	}
	if lanes, err = op.lanesOf(ctx, route); err != nil {
		return nil, nil, table, err
	}
	table, err = src.Table(ctx)
	return src, lanes, table, err
}

// together returns the lanes of a route as they hold in a table. If they were computed from something else than there, and are not all at
// one place, that is from, and all of them are at the lowest of their cursors.
func together(src adapters.OperatorSource, lanes []adapters.LaneStatus, table adapters.Table) (there []adapters.LaneStatus, from string) {
	var cursors []adapters.Cursor
	one := true
	for _, l := range lanes {
		if l.Table.Regrouped(table) {
			from = l.Table.Lanes
		}
		if !l.UpdatedAt.IsZero() {
			cursors = append(cursors, l.Cursor)
			one = one && l.Cursor.SamePlace(cursors[0]) && len(l.Beyond) == 0
		}
	}
	if from == "" || len(cursors) == 0 || one && len(cursors) == adapters.Slots {
		return lanes, ""
	}
	there = slices.Clone(lanes)
	low := adapters.Lowest(src, cursors)
	for i := range there {
		there[i].Cursor, there[i].Beyond = low, nil
	}
	return there, from
}

// PlanRebase plans to reposition a route's cursor in a database that was
// restored, moved or recovered to an earlier point. A cursor that is still good
// is refused unless forced. Plan and carry out close to each other.
func (op *Operator) PlanRebase(ctx context.Context, route string, force bool) (*Relocation, error) {
	src, lanes, table, err := op.standing(ctx, route)
	if err != nil {
		return nil, err
	}
	lanes, _ = together(src, lanes, table)
	rebaser, ok := adapters.RebaserOf(src)
	if !ok {
		return nil, refused("route %q: a source of its kind cannot be rebased: its table does not show which rows a cursor had not covered; "+
			"`outrider seek %s` moves it to the first message that was not delivered", route, route)
	}
	if len(lanes) == 0 {
		return nil, refused("route %q has no cursor yet; there is nothing to rebase", route)
	}
	for _, l := range lanes {
		if other := otherTable(l, table); other != nil && !other.Moved() {
			return nil, refused("route %q: %w. %s", route, other, other.Advice(route, true))
		}
	}
	good, err := stillGood(ctx, src, lanes, table)
	if err != nil {
		return nil, fmt.Errorf("route %q: %w", route, err)
	}
	if good && !force {
		return nil, refused("route %q: its cursor is good in this database; there is nothing to rebase, unless it is forced", route)
	}
	waiting, cancel := context.WithTimeout(ctx, rebasePatience)
	defer cancel()
	cursors, err := rebaser.Rebase(waiting, lanes)
	if err != nil {
		return nil, err
	}
	plan, err := op.relocation(lanes, Relocation{Action: "rebase", To: "the restored database",
		move: adapters.Move{Route: route, Cursors: cursors, Table: table, Same: true}})
	if err != nil {
		return nil, err
	}
	var moves []adapters.CursorMove
	for _, l := range lanes {
		if to, ok := cursors[l.Slot]; ok && !l.UpdatedAt.IsZero() {
			moves = append(moves, adapters.CursorMove{Slot: l.Slot, From: l.Cursor, Beyond: l.Beyond, To: to})
		}
	}
	counts, err := op.countMoves(ctx, src, route, moves)
	if err == nil {
		plan.count(counts)
	}
	return plan, err
}

// PlanAdopt plans to have a route continue with the cursor that it has of another
// table, because the one that it reads now holds the same rows: it was renamed, or
// moved to another schema, database or file. Where the cursor means something there
// it stays where it is; otherwise it is placed as [Operator.PlanRebase] does. Of lanes
// that are computed from something else than before, all continue where the lowest one is.
func (op *Operator) PlanAdopt(ctx context.Context, route string) (*Relocation, error) {
	src, lanes, table, err := op.standing(ctx, route)
	if err != nil {
		return nil, err
	}
	lanes, regrouped := together(src, lanes, table)
	from, err := adopted(route, lanes, table, regrouped != "")
	if err != nil {
		return nil, err
	}
	if regrouped != "" && (len(lanes) < adapters.Slots || slices.ContainsFunc(lanes, func(l adapters.LaneStatus) bool { return l.UpdatedAt.IsZero() })) {
		return nil, refused("route %q: not all of its lanes have a cursor: say where it begins with `outrider seek %s --to ...`", route, route)
	}
	cursors, beyond := map[int]adapters.Cursor{}, map[int][]int64{}
	there := slices.Clone(lanes) // as if they were of the table
	for i := range there {
		if there[i].Table.Cluster == table.Cluster {
			there[i].Table = table
		}
		cursors[there[i].Slot], beyond[there[i].Slot] = there[i].Cursor, there[i].Beyond
	}
	good, err := stillGood(ctx, src, there, table)
	if err != nil {
		return nil, fmt.Errorf("route %q: %w", route, err)
	}
	if !good {
		rebaser, ok := adapters.RebaserOf(src)
		if !ok {
			return nil, refused("route %q: its cursor is not valid in %s: move it to the first message that was not delivered, with `outrider seek %s --to ...`",
				route, table, route)
		}
		waiting, cancel := context.WithTimeout(ctx, rebasePatience)
		defer cancel()
		beyond = nil
		if cursors, err = rebaser.Rebase(waiting, lanes); err != nil {
			return nil, err
		}
	}
	to := fmt.Sprintf("%s, which holds the rows of %s", table, from)
	if regrouped != "" {
		to += ", from where the lane is that is furthest behind"
	}
	return op.relocation(there, Relocation{Action: "rebase", To: to,
		move: adapters.Move{Route: route, Cursors: cursors, Beyond: beyond, Table: table, Same: true}})
}

// Rebasing is [Operator.PlanRebase], or [Operator.PlanAdopt].
func (op *Operator) Rebasing(ctx context.Context, route string, force, adopt bool) (*Relocation, error) {
	if adopt {
		return op.PlanAdopt(ctx, route)
	}
	return op.PlanRebase(ctx, route, force)
}

// adopted is the table whose cursors are to be those of another one, or of the same one with other lanes.
func adopted(route string, lanes []adapters.LaneStatus, table adapters.Table, regrouped bool) (from adapters.Table, err error) {
	for _, l := range lanes {
		other := otherTable(l, table)
		switch {
		case other == nil:
		case other.Cursor.Name == adapters.NoTable || from.Name != "" && !from.Equals(other.Cursor):
			return from, refused("route %q: its cursors are not those of one table (%s, %s): say where it begins with `outrider seek %s --to ...`",
				route, from, other.Cursor, route)
		default:
			from = other.Cursor
		}
	}
	if from == (adapters.Table{}) && regrouped {
		return table, nil
	}
	if from == (adapters.Table{}) {
		return from, refused("route %q: its cursor belongs to the table that it reads; there is nothing to adopt", route)
	}
	return from, nil
}

// otherTable is the error of a cursor of another table; nil: it is of this one.
func otherTable(l adapters.LaneStatus, table adapters.Table) *adapters.OtherTable {
	if l.Table.Is(table) || l.UpdatedAt.IsZero() && l.Table.Name == "" {
		return nil
	}
	return &adapters.OtherTable{Cursor: l.Table, Source: table}
}

// stillGood reports whether all cursors of a route mean something in the source. It is an
// error that the source cannot be asked: a cursor that is good must not be repositioned.
func stillGood(ctx context.Context, src adapters.OperatorSource, lanes []adapters.LaneStatus, table adapters.Table) (bool, error) {
	for _, l := range lanes {
		if l.UpdatedAt.IsZero() {
			continue
		}
		if !l.Table.Is(table) {
			return false, nil
		}
		if err := src.Validate(ctx, l.Cursor); adapters.IsInvalidCursor(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// relocation completes a plan with what it will do.
func (op *Operator) relocation(lanes []adapters.LaneStatus, r Relocation) (*Relocation, error) {
	r.Route = r.move.Route
	if atOnePlace(r.move) {
		r.move.Table.Lanes = "" // they cover the same rows, whatever they are computed from
	}
	r.move.Action, r.move.Detail = r.Action, r.To
	for _, l := range lanes {
		if l.Alive && l.Owner != "" && !slices.Contains(r.Owners, l.Owner) {
			r.Owners = append(r.Owners, l.Owner)
		}
	}
	return &r, nil
}

// atOnePlace reports whether all lanes go to the same cursor.
func atOnePlace(m adapters.Move) bool {
	for slot, c := range m.Cursors {
		if !c.SamePlace(m.Cursors[0]) || len(m.Beyond[slot]) > 0 {
			return false
		}
	}
	return len(m.Cursors) == adapters.Slots
}

// count completes a plan with how many rows it concerns.
func (r *Relocation) count(counts []adapters.MoveCount) {
	add := func(b *adapters.Backlog, n int, more bool) {
		b.Rows, b.More = b.Rows+n, b.More || more
		if n > movedMost || b.Rows > movedMost {
			b.Rows, b.More = movedMost, true
		}
	}
	for _, c := range counts {
		add(&r.Again, c.Again, c.More)
		add(&r.Skipped, c.Passed, c.More)
		add(&r.Skipped, c.Late, c.More)
		add(&r.Late, c.Late, c.More)
	}
	r.Counted = true
}

// Relocate carries a plan out. A running instance loses the lanes at once, so
// that nothing which it settles later counts, and takes them again at the new
// place; messages that were in flight may have arrived and then come again.
// Parked messages stay.
func (op *Operator) Relocate(ctx context.Context, r *Relocation, by string) error {
	s, err := op.Store(ctx, r.Route)
	if err != nil {
		return err
	}
	r.move.By = cmp.Or(by, "unknown")
	return op.inTurn(ctx, s, r.Route, true, func() error { return s.Move(ctx, r.move) })
}

// ExamineCursors finds cursors of a route that are another table's, or not valid in its table.
func (op *Operator) ExamineCursors(ctx context.Context, route string) []adapters.Finding {
	const subject = "cursor"
	unknown := func(what string, err error) []adapters.Finding {
		return []adapters.Finding{{Level: adapters.LevelUnknown, Subject: subject, Text: what + ": " + err.Error()}}
	}
	src, lanes, table, err := op.standing(ctx, route)
	if err != nil {
		return unknown("its table cannot be determined", err)
	}
	_, rebased := adapters.RebaserOf(src)
	for _, l := range lanes {
		if other := otherTable(l, table); other != nil {
			return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject, Text: other.Error() + "; the route does not run", Fix: other.Advice(route, rebased)}}
		}
		if l.UpdatedAt.IsZero() {
			continue
		}
		if err := src.Validate(ctx, l.Cursor); adapters.IsInvalidCursor(err) {
			return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject, Text: err.Error()}}
		} else if err != nil {
			return unknown("it cannot be checked", err)
		}
	}
	if _, from := together(src, lanes, table); from != "" {
		return adapters.FindingsOf(subject, adapters.RegroupedError(route, from, table.Lanes))
	}
	return []adapters.Finding{{Subject: subject, Text: "belongs to " + table.String()}}
}
