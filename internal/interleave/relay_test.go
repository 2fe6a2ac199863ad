package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
)

// route is the route of all scenarios, which has one lane in use.
const route = "orders"

// lease is for how long instances live, unless a scenario ends one.
const lease = time.Hour

// stateStore is what the scenarios need of one.
type stateStore interface {
	adapters.OperatorStore
}

// reading is a read of the lane.
type reading struct {
	ids     []string
	next    adapters.Cursor
	drained bool
}

// relay does what the router does with one lane, a call at a time.
type relay struct {
	w     *world
	name  string
	store stateStore
	slot  int
	table adapters.Table

	source *owntable.Source // nil: the rows are no table's
	read   func(ctx context.Context, from adapters.Cursor) (reading, error)

	owns bool
	lane adapters.LaneState
}

// again repeats what a lost connection has ended, as the router does.
func again[T any](f func() (T, error)) (v T, err error) {
	for range 4 {
		if v, err = f(); err == nil || errors.Is(err, adapters.ErrPaused) || errors.Is(err, adapters.ErrConflict) {
			break
		}
	}
	return v, err
}

// acquire takes the lane if it may.
func (r *relay) acquire() error {
	lanes, err := again(func() ([]adapters.LaneState, error) { return r.store.Acquire(r.w.ctx, r.name, route, []int{r.slot}, 1) })
	if errors.Is(err, adapters.ErrPaused) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	r.w.own(r.name, lanes)
	if r.owns = len(lanes) > 0; r.owns {
		r.take(lanes[0])
	}
	return nil
}

func (r *relay) take(l adapters.LaneState) {
	if r.lane = l; l.New {
		r.lane.Cursor, r.lane.NextSeq = r.w.start, 1
	}
}

// renew does what a heartbeat does: the lane is lost when the answer does not have it.
func (r *relay) renew() error {
	marks, err := again(func() (map[adapters.LaneRef]adapters.LaneMark, error) { return r.store.Renew(r.w.ctx, r.name, lease) })
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	mark, ours := marks[r.lane.LaneRef]
	r.owns = r.owns && ours && mark.Epoch == r.lane.Epoch
	if r.owns && mark.Revision != r.lane.Revision {
		r.w.fault("%s has revision %d of its lane, and the renewal says %d", r.name, r.lane.Revision, mark.Revision)
	}
	return nil
}

// settlement is the write of a cursor.
func (r *relay) settlement(next adapters.Cursor) adapters.Settlement {
	return adapters.Settlement{LaneRef: r.lane.LaneRef, Epoch: r.lane.Epoch, Cursor: next, NextSeq: max(r.lane.NextSeq, 1), Table: r.table,
		Revision: r.lane.Revision + 1, Confirmed: r.lane.Revision}
}

// settle writes until it is known what came of it.
func (r *relay) settle(s adapters.Settlement, ids ...string) error {
	fenced, err := again(func() ([]adapters.LaneRef, error) { return r.store.Settle(r.w.ctx, []adapters.Settlement{s}) })
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if len(fenced) > 0 {
		r.owns = false
		return nil
	}
	r.lane.Cursor, r.lane.Revision, r.lane.NextSeq = s.Cursor, s.Revision, s.NextSeq
	r.w.settle(ids...)
	return nil
}

// turn reads, delivers and settles once.
func (r *relay) turn() (drained bool, err error) {
	if !r.owns {
		return true, nil
	}
	got, err := again(func() (reading, error) { return r.read(r.w.ctx, r.lane.Cursor) })
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	r.w.receive(got.ids...)
	return got.drained, r.settle(r.settlement(got.next), got.ids...)
}

// turns is so many of them.
func (r *relay) turns(n int) error {
	for range n {
		if _, err := r.turn(); err != nil {
			return err
		}
	}
	return nil
}

// repay delivers what is parked, group by group.
func (r *relay) repay() error {
	groups, err := r.store.ParkedGroups(r.w.ctx, route, []int{r.slot})
	if err != nil {
		return err
	}
	for _, g := range groups {
		parked, err := r.store.ParkedQueue(r.w.ctx, r.lane.LaneRef, g.Group, 0, 100, 1<<20)
		if err != nil {
			return err
		}
		for i := range parked {
			s := r.settlement(r.lane.Cursor)
			s.Unpark, s.Stored = []int64{parked[i].Seq}, r.lane.NextSeq
			r.w.receive(parked[i].ID)
			if err := r.settle(s, parked[i].ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain takes the lane and delivers what is left. Others are dead by then.
func (r *relay) drain() error {
	if err := r.acquire(); err != nil {
		return err
	}
	if !r.owns {
		return errors.New("the lane cannot be acquired")
	}
	if err := r.repay(); err != nil {
		return err
	}
	for range 10 {
		drained, err := r.turn()
		if err != nil {
			return err
		}
		if !r.owns {
			return errors.New("the lane was lost")
		}
		if drained {
			return nil
		}
	}
	return errors.New("there is no end of what is read")
}
