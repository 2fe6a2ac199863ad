package interleave_test

import (
	"errors"

	"github.com/outriderhq/outrider/adapters"
)

// pause pauses the route.
func pause(r *relay) error {
	_, err := r.store.Pause(r.w.ctx, adapters.Pause{Route: route, By: operator})
	r.w.note("paused", 1)
	return err
}

// removeA takes all lanes from a, which runs on.
func removeA(r *relay) error {
	_, err := r.store.RemoveInstance(r.w.ctx, relayA, operator)
	return err
}

// forget forgets the route, unless an owner lives.
func forget(r *relay) error {
	_, err := r.store.Forget(r.w.ctx, route, false, operator)
	if errors.Is(err, adapters.ErrAlive) {
		return nil
	}
	return err
}

// seek has the lane start at another place.
func seek(r *relay) error {
	return r.store.Move(r.w.ctx, adapters.Move{Route: route, Cursors: map[int]adapters.Cursor{r.slot: {Position: 777, Snapshot: r.w.start.Snapshot}},
		Table: r.table, Action: "seek", By: operator})
}

// acquireUnpaused acquires, and must not when the route was paused before.
func acquireUnpaused(r *relay) error {
	r.w.mu.Lock()
	paused := r.w.notes["paused"] > 0
	r.w.mu.Unlock()
	before := r.lane.Epoch
	if err := acquire(r); err != nil {
		return err
	}
	if paused && r.owns && r.lane.Epoch != before {
		r.w.fault("%s acquired a lane of a paused route", r.name)
	}
	return nil
}

// bind binds the route to a table.
func bind(table string) call {
	return func(r *relay) error {
		err := r.store.Bind(r.w.ctx, route, adapters.Table{Name: table})
		if _, refused := errors.AsType[*adapters.OtherTable](err); refused {
			r.w.note("refused", 1)
			return nil
		}
		return err
	}
}
