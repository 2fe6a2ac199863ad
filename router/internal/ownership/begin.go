package ownership

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// prepare gives new cursors their start and checks that the others belong to the
// table that the route reads, and still mean something in it.
func (r *Route) prepare(ctx context.Context, states []adapters.LaneState) error {
	if err := r.locate(ctx); err != nil {
		return &sourceError{err}
	}
	if err := r.bind(ctx, states); err != nil {
		return err
	}
	if r.Source == nil {
		return nil
	}
	var first *adapters.Cursor
	rows := map[int64]adapters.Anchor{}
	for i := range states {
		st := &states[i]
		if st.New {
			if first == nil {
				c, err := r.Source.Start(ctx, r.Start)
				if err != nil {
					return &sourceError{err}
				}
				first = &c
			}
			st.Cursor = *first
		} else if err := r.Source.Validate(ctx, st.Cursor); adapters.MeansNothing(err) {
			return &stoppedError{fmt.Errorf("route %q: %w (%s)", r.Name, err, r.placeAnew())}
		} else if err != nil { // the source could not be asked
			return &sourceError{err}
		}
		if err := r.anchor(ctx, st, rows); err != nil {
			return &sourceError{err}
		}
	}
	return nil
}

// anchor looks up the row at a cursor that no row was read for, once for each
// position. Rows are the anchors found so far.
func (r *Route) anchor(ctx context.Context, st *adapters.LaneState, rows map[int64]adapters.Anchor) error {
	src, ok := r.Source.(adapters.Anchorer)
	if !ok || !st.Cursor.Anchor.IsZero() || st.Cursor.Position <= 0 {
		return nil
	}
	found, ok := rows[st.Cursor.Position]
	if !ok {
		c, err := src.Anchored(ctx, st.Cursor)
		if err != nil {
			return err
		}
		found = c.Anchor
		rows[st.Cursor.Position] = found
	}
	st.Cursor.Anchor, st.Placed = found, !found.IsZero()
	return nil
}

// locate finds out which table the route reads.
func (r *Route) locate(ctx context.Context) error {
	if r.Source == nil {
		r.table = adapters.Table{Name: adapters.NoTable}
		return nil
	}
	table, err := adapters.TableOf(ctx, r.Source)
	if err == nil {
		r.table = table
	}
	return err
}

// bind checks that cursors belong to the table that the route reads. Those of which
// it is not known yet belong to it from now on, unless the route has cursors of
// another one: two services can have a route of the same name in one state store.
func (r *Route) bind(ctx context.Context, states []adapters.LaneState) error {
	unknown := false
	for i := range states {
		switch at := states[i].Table; {
		case at.Name == "":
			unknown = true
		case !at.Is(r.table):
			return r.elsewhere(&adapters.OtherTable{Cursor: at, Source: r.table})
		}
	}
	if !unknown {
		return nil
	}
	err := r.State.Bind(ctx, r.Name, r.table)
	if other, ok := errors.AsType[*adapters.OtherTable](err); ok {
		return r.elsewhere(other)
	}
	return err
}

// elsewhere is why a route whose cursor is another table's does not run.
func (r *Route) elsewhere(other *adapters.OtherTable) error {
	_, rebased := adapters.RebaserOf(r.Source)
	return &stoppedError{fmt.Errorf("route %q: %w. %s", r.Name, other, other.Advice(r.Name, rebased))}
}

// placeAnew is the command for a route whose cursor means nothing any more.
func (r *Route) placeAnew() string {
	if _, ok := adapters.RebaserOf(r.Source); ok {
		return "outrider rebase " + r.Name
	}
	return "outrider seek " + r.Name + " --to ... (before the first message that was not delivered)"
}
