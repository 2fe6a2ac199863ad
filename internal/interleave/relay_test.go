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

// Instances of the scenarios. The last one does nothing in a run: it comes when all is over.
const (
	relayA    = "a"
	relayB    = "b"
	publisher = "publisher"
	another   = "another" // publisher
	operator  = "operator"
	drainer   = "drainer"
)

// group is the ordering key of rows in a log, so that they are in one lane.
const group = "g"

// rowsOfRead is how many rows a read returns at most: fewer than there may be.
const rowsOfRead = 2

// lease is for how long instances live, unless a scenario ends one.
const lease = time.Hour

// reading is a read of the lane.
type reading struct {
	ids     []string
	next    adapters.Cursor
	drained bool
}

// relay does what the router does, a call at a time, with one lane or with a queue. Publishers and operators are ones too.
type relay struct {
	w    *world
	name string

	store   adapters.OperatorStore
	slot    int
	table   adapters.Table
	source  *owntable.Source // nil: the rows are no table's
	read    func(ctx context.Context, from adapters.Cursor) (reading, error)
	owns    bool
	deliver func(ids ...string) error // nil: the receiver takes all

	deliverTx func(ctx context.Context, tx any, ids ...string) error // in the transaction that settles; nil: into the table sink
	lane      adapters.LaneState

	queue   adapters.OperatorQueue
	limit   int  // rows of a claim
	retakes bool // it takes rows that others hold: what is claimed longer than for a moment counts as stuck
	held    []*adapters.Row
	hot     adapters.HotInsert // whose rows it may deliver from memory
}

// call is something that a relay does.
type call func(r *relay) error

// calls are what a session does, one after the other.
type calls []call

// does is a role of some calls.
func does(name string, calls calls) role {
	return role{session: name, run: func(r *relay) error {
		for _, call := range calls {
			if err := call(r); err != nil {
				return err
			}
		}
		return nil
	}}
}

// cut is a role that may lose its connection once.
func cut(r role) role {
	r.cuts = 1
	return r
}

// runs is a role that runs SQL.
func runs(session string, statements ...string) role {
	return does(session, calls{func(r *relay) error { return r.w.exec(session, statements...) }})
}

// readTable reads the lane's rows of Outrider's own table.
func (r *relay) readTable(ctx context.Context, from adapters.Cursor) (got reading, err error) {
	results, err := r.source.Fetch(ctx, []adapters.Read{{Slot: r.slot, From: from, Limit: rowsOfRead}}, func(_ int, row *adapters.Row) bool {
		got.ids = append(got.ids, row.ID)
		return true
	})
	if len(got.ids) > rowsOfRead {
		r.w.fault("a read of %d rows returned %v", rowsOfRead, got.ids)
	}
	if err == nil {
		got.next, got.drained = results[0].Next, results[0].Drained
	}
	return got, err
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
func acquire(r *relay) error {
	lanes, err := r.acquire(1, r.slot)
	if errors.Is(err, adapters.ErrPaused) {
		return nil
	}
	if r.owns = len(lanes) > 0; r.owns {
		r.take(lanes[0])
	}
	return err
}

// acquireOne takes one of two lanes, and it again.
func acquireOne(r *relay) error {
	lanes, err := r.acquire(1, 0, 1)
	if err == nil && (len(lanes) != 1 || r.owns && r.lane.Slot != lanes[0].Slot) {
		r.w.fault("%s acquired %v of two lanes, and wanted one, its own", r.name, lanes)
	} else if err == nil {
		r.owns = true
		r.take(lanes[0])
	}
	return err
}

// acquireFour takes four lanes.
func acquireFour(r *relay) error {
	lanes, err := r.acquire(4, 0, 1, 2, 3)
	if len(lanes) > 0 {
		r.take(lanes[0])
	}
	return err
}

func (r *relay) acquire(most int, slots ...int) ([]adapters.LaneState, error) {
	lanes, err := again(func() ([]adapters.LaneState, error) { return r.store.Acquire(r.w.ctx, r.name, route, slots, most) })
	r.w.own(r.name, lanes)
	return lanes, err
}

func (r *relay) take(l adapters.LaneState) {
	if r.lane = l; l.New {
		r.lane.Cursor, r.lane.NextSeq = r.w.start, 1
	}
}

// renew does what a heartbeat does: the lane is lost when the answer does not have it.
func renew(r *relay) error {
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

// settlesCursor writes the cursor as it is.
func settlesCursor(r *relay) error { return r.settle(r.settlement(r.lane.Cursor)) }

// turn reads, delivers and settles once.
func (r *relay) turn() (drained bool, err error) {
	if !r.owns {
		return true, nil
	}
	got, err := again(func() (reading, error) { return r.read(r.w.ctx, r.lane.Cursor) })
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	if r.deliver != nil && len(got.ids) > 0 {
		if err := r.deliver(got.ids...); err != nil {
			return false, fmt.Errorf("deliver: %w", err)
		}
	}
	r.w.receive(got.ids...)
	return got.drained, r.settle(r.settlement(got.next), got.ids...)
}

func turn(r *relay) error {
	_, err := r.turn()
	return err
}

// repay delivers what is parked, group by group.
func repay(r *relay) error {
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
	if err := acquire(r); err != nil {
		return err
	}
	if !r.owns {
		return errors.New("the lane cannot be acquired")
	}
	if err := repay(r); err != nil {
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

// release gives the lane up.
func release(r *relay) error {
	if !r.owns {
		return nil
	}
	r.owns = false
	_, err := again(func() (struct{}, error) {
		return struct{}{}, r.store.Release(r.w.ctx, r.name, []adapters.LaneRef{r.lane.LaneRef})
	})
	return err
}

// parks reads, and parks what it has read, which failed.
func parks(r *relay) error {
	if !r.owns {
		return nil
	}
	got, err := again(func() (reading, error) { return r.read(r.w.ctx, r.lane.Cursor) })
	if err != nil {
		return err
	}
	s := r.settlement(got.next)
	s.Stored = s.NextSeq
	for _, id := range got.ids {
		s.Park = append(s.Park, message(s.NextSeq, id, 1))
		s.NextSeq++
	}
	return r.settle(s)
}

// message is one that is attempted again at once.
func message(seq int64, id string, attempts int) adapters.Parked {
	return adapters.Parked{Seq: seq, Group: group, Status: adapters.ParkedRetrying, Attempts: attempts, ID: id, Type: "t", LastError: "no", Payload: []byte("1"), Metadata: map[string]string{}}
}

// failsAgain settles a second failed attempt of r1.
func failsAgain(r *relay) error {
	s := r.settlement(r.lane.Cursor)
	m := message(1, "r1", 2)
	m.Was = 1
	s.Stored, s.Park = r.lane.NextSeq, []adapters.Parked{m}
	return r.settle(s)
}

// succeeds delivers r1, which is parked.
func succeeds(r *relay) error {
	s := r.settlement(r.lane.Cursor)
	s.Stored, s.Unpark = r.lane.NextSeq, []int64{1}
	r.w.receive("r1")
	return r.settle(s, "r1")
}

// turnAfterRestore is a turn that must be fenced if the cursor was put back before, over what was settled.
func turnAfterRestore(r *relay) error {
	r.w.mu.Lock()
	back := r.w.notes["put back"] > 0
	r.w.mu.Unlock()
	err := turn(r)
	if back && r.owns {
		r.w.fault("a settle went on from a cursor that was put back")
	}
	return err
}
