package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
)

// turnTx delivers into a table in the transaction that settles.
func turnTx(r *relay) error {
	if !r.owns {
		return nil
	}
	got, err := again(func() (reading, error) { return r.read(r.w.ctx, r.lane.Cursor) })
	if err != nil {
		return err
	}
	s := r.settlement(got.next)
	fenced, err := again(func() ([]adapters.LaneRef, error) { return r.transact(s, got.ids...) })
	if err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	if len(fenced) > 0 {
		r.owns = false
		return nil
	}
	r.lane.Cursor, r.lane.Revision = s.Cursor, s.Revision
	r.w.settle(got.ids...)
	return nil
}

// transact delivers and settles.
func (r *relay) transact(s adapters.Settlement, ids ...string) ([]adapters.LaneRef, error) {
	return r.store.(adapters.TxStateStore).Transact(r.w.ctx, func(ctx context.Context, tx any) error {
		if r.deliverTx != nil {
			return r.deliverTx(ctx, tx, ids...)
		}
		return sink(ctx, tx, ids...)
	}, func(context.Context) ([]adapters.Settlement, error) { return []adapters.Settlement{s}, nil })
}

// sink delivers into a table.
func sink(ctx context.Context, tx any, ids ...string) error {
	_, err := tx.(pgx.Tx).Exec(ctx, "INSERT INTO public.sink (id) SELECT unnest($1::text[])", ids)
	return err
}

// succeedsTx delivers r1, which is parked.
func succeedsTx(r *relay) error {
	s := r.settlement(r.lane.Cursor)
	s.Stored, s.Unpark, s.Delivered = r.lane.NextSeq, []int64{1}, []int64{1}
	fenced, err := r.transact(s, "r1")
	if _, gone := errors.AsType[*adapters.GoneError](err); gone {
		return nil
	}
	if len(fenced) > 0 {
		r.w.fault("the lane was lost")
	}
	return err
}

// sunk delivers what is left, and takes the table for what was received.
func sunk(w *world) error {
	err := w.exec(drainer, fmt.Sprintf(w.endLease, relayA), fmt.Sprintf(w.endLease, relayB))
	for _, call := range []call{acquire, turnTx, turnTx} {
		err = errors.Join(err, call(w.relays[drainer]))
	}
	if err != nil {
		return err
	}
	for _, e := range w.committed {
		if err := w.want("deliveries of "+e.id, 1, "sink WHERE id = '"+e.id+"'"); err != nil {
			return err
		}
		w.receive(e.id)
	}
	return nil
}

// retain removes what all routes have settled.
func retain(retention adapters.Retention) call {
	return func(r *relay) error {
		lanes, err := r.store.Cursors(r.w.ctx, []string{route})
		if err != nil {
			return err
		}
		cursors := adapters.RouteCursors{Route: route}
		for i := range lanes {
			if !lanes[i].UpdatedAt.IsZero() {
				cursors.Cursors[lanes[i].Slot] = &lanes[i].Cursor
			}
		}
		gone, err := r.source.Retain(r.w.ctx, retention, []adapters.RouteCursors{cursors})
		r.w.note("partitions", gone.Partitions)
		return err
	}
}

// rowsOfPart is how many positions a partition has.
const rowsOfPart = 2

// Ways to remove rows.
var (
	retainRows  = retain(adapters.Retention{Mode: adapters.RetainRows})
	retainParts = retain(adapters.Retention{Mode: adapters.RetainPartitions, PartitionRows: rowsOfPart})
)

// rebase has the lane go on in a database that was restored, unless a publisher goes on writing. What was settled may come again.
func rebase(r *relay) error {
	ctx, cancel := context.WithTimeout(r.w.ctx, 5*time.Second)
	defer cancel()
	lanes, err := r.store.Cursors(ctx, []string{route})
	if err != nil {
		return err
	}
	cursors, err := r.source.Rebase(ctx, lanes)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = r.store.Move(r.w.ctx, adapters.Move{Route: route, Cursors: cursors, Table: r.table, Action: "rebase", By: operator})
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	clear(r.w.settled)
	return err
}
