package ownership

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// round is one try to acquire lanes. The answers of a source in it hold for all routes: hundreds may have the same cursor.
type round struct {
	before map[*Route]error             // of the routes for which [Config] Before was called
	known  map[question]any             // answers
	taken  map[string]adapters.Acquired // by takeTogether, by route
	pauses []adapters.Pause             // of all routes, read after that
}

func newRound() *round { return &round{before: map[*Route]error{}, known: map[question]any{}} }

// question is a source and what it is asked about: a start, a cursor, an anchor at a position, or nil: its table.
type question struct {
	adapters.Source
	about any
}

// answer returns the answer of this round, or asks. Errors are not kept.
func answer[V any](now *round, q question, ask func() (V, error)) (V, error) {
	if v, ok := now.known[q].(V); ok {
		return v, nil
	}
	v, err := ask()
	if err == nil {
		now.known[q] = v
	}
	return v, err
}

// prepare gives new cursors their start and checks that existing ones belong to the table that the route reads, and are still valid in it.
func (r *Route) prepare(ctx context.Context, now *round, states []adapters.LaneState) error {
	if err := r.locate(ctx, now); err != nil {
		return &sourceError{err}
	}
	if err := r.bind(ctx, states); err != nil {
		return err
	}
	if r.Source == nil {
		return nil
	}
	if err := r.checkLanes(states); err != nil {
		return err
	}
	for i := range states {
		st := &states[i]
		st.Placed = !st.New && st.Table.Lanes != r.table.Lanes // from what its lane is computed is not written down
		if err := r.place(ctx, now, st); adapters.IsInvalidCursor(err) {
			return &stoppedError{fmt.Errorf("route %q: %w (%s)", r.Name, err, r.placeAnew())}
		} else if err != nil { // the source could not be asked
			return &sourceError{err}
		}
		if err := r.anchor(ctx, now, st); err != nil {
			return &sourceError{err}
		}
	}
	if err := r.fit(ctx, states); err != nil {
		return &sourceError{err}
	}
	return nil
}

// place gives a new cursor its start, and checks that one from before is still valid in the source.
func (r *Route) place(ctx context.Context, now *round, st *adapters.LaneState) error {
	if st.New {
		first, err := r.startOf(ctx, now, st.Slot)
		if err == nil {
			st.Cursor = first
		}
		return err
	}
	_, err := answer(now, question{r.Source, [2]any{st.Cursor, r.placeOf(st.Slot)}}, func() (bool, error) { return true, r.validate(ctx, st) })
	return err
}

// fit is [adapters.SnapshotFitter] for the cursors of lanes.
func (r *Route) fit(ctx context.Context, states []adapters.LaneState) error {
	f, ok := r.Source.(adapters.SnapshotFitter)
	if !ok {
		return nil
	}
	var written []*adapters.LaneState
	var cursors []*adapters.Cursor
	for i := range states {
		if st := &states[i]; !st.New && st.Cursor.Snapshot != "" {
			written, cursors = append(written, st), append(cursors, &st.Cursor)
		}
	}
	if len(cursors) == 0 {
		return nil
	}
	was := make([]adapters.Cursor, len(cursors))
	for i, c := range cursors {
		was[i] = *c
	}
	if err := f.Fit(ctx, cursors); err != nil {
		return err
	}
	for i, st := range written {
		if shorter := st.Cursor != was[i]; shorter || r.PutBack[st.Slot].Swap(false) {
			st.Placed = st.Placed || shorter
			st.Beyond = nil // these positions may be given out again
		}
	}
	return nil
}

// checkLanes checks that lanes are computed as before: otherwise a row that was behind in one lane can be below the cursor of another one.
// Cursors that are all equal cover the same rows however lanes are computed.
func (r *Route) checkLanes(states []adapters.LaneState) error {
	same := len(states) == adapters.Slots
	from := ""
	for i := range states {
		st := &states[i]
		if st.Table.Regrouped(r.table) {
			from = st.Table.Lanes
		}
		same = same && !st.New && len(st.Beyond) == 0 && st.Cursor.SamePlace(states[0].Cursor)
	}
	if from == "" || same {
		return nil
	}
	return &stoppedError{adapters.RegroupedError(r.Name, from, r.table.Lanes)}
}

// anchor looks up the row at a cursor that no row was read for, and completes the anchor of an older version.
func (r *Route) anchor(ctx context.Context, now *round, st *adapters.LaneState) error {
	was := st.Cursor.Anchor
	if r.Source == nil || !was.IsZero() && (was.Born == 0 || was.Newest != 0) || st.Cursor.Position <= 0 {
		return nil
	}
	found, err := answer(now, question{r.Source, [2]any{st.Cursor.Position, was}}, func() (adapters.Anchor, error) {
		c, err := r.Source.Anchored(ctx, st.Cursor)
		return c.Anchor, err
	})
	if err != nil {
		return err
	}
	st.Cursor.Anchor, st.Placed = found, st.Placed || found != was
	return nil
}

// locate finds out which table the route reads.
func (r *Route) locate(ctx context.Context, now *round) error {
	if r.Source == nil {
		r.table = adapters.Table{Name: adapters.NoTable}
		return nil
	}
	table, err := answer(now, question{r.Source, nil}, func() (adapters.Table, error) { return r.Source.Table(ctx) })
	if err == nil {
		r.table = table
	}
	return err
}

// bind checks that cursors belong to the table that the route reads. Cursors without a table belong to it from now on, unless the route has
// cursors of another table: two services can have a route of the same name in one state store.
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

// elsewhere returns the error of a route whose cursor belongs to another table.
func (r *Route) elsewhere(other *adapters.OtherTable) error {
	_, rebased := adapters.RebaserOf(r.Source)
	return &stoppedError{fmt.Errorf("route %q: %w. %s", r.Name, other, other.Advice(r.Name, rebased))}
}

// placeAnew returns the command for a route whose cursor is not valid any more.
func (r *Route) placeAnew() string {
	if _, ok := adapters.RebaserOf(r.Source); ok {
		return "outrider rebase " + r.Name
	}
	return "outrider seek " + r.Name + " --to ... (before the first message that was not delivered)"
}
