package statestore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/internal/failpoint"
)

var _ adapters.TxStateStore = (*Store)(nil)

// These wait until no transaction changes the rows of a lane, and return which settle was the last one.
const (
	writtenSQL      = `SELECT epoch, revision FROM outrider_cursor WHERE route = $1 AND slot = $2 FOR UPDATE`
	writtenAsideSQL = `SELECT epoch, revision FROM outrider_settled WHERE route = $1 AND slot = $2 AND epoch = $3 FOR UPDATE`
)

// errFenced rolls back a transaction of which a lane is not the writer's any more.
var errFenced = errors.New("the lane has another owner")

// Database implements [adapters.TxStateStore].
func (s *Store) Database() string { return pg.Database(s.pool.Config().ConnConfig) }

// Transact implements [adapters.TxStateStore]. The tx of deliver is a pgx.Tx.
func (s *Store) Transact(ctx context.Context, deliver func(ctx context.Context, tx any) error,
	settle func(ctx context.Context) ([]adapters.Settlement, error)) (fenced []adapters.LaneRef, err error) {
	pool, err := s.deliveries.Beside(ctx, s.pool.Pool)
	if err != nil {
		return nil, stateError("deliver", err)
	}
	var own error // of deliver and settle
	var sorted []adapters.Settlement
	err = pg.Transact(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		own = deliver(ctx, tx)
		if own != nil {
			return own
		}
		failpoint.Hit(failpoint.Delivered)
		var settlements []adapters.Settlement
		if settlements, own = settle(ctx); own != nil {
			return own
		}
		if sorted, err = state.SortSettlements(settlements); err != nil {
			return err
		}
		state := stateTx{tx, s.pool.schema}
		alive, err := s.settleCursors(ctx, state, sorted)
		if err != nil {
			return err
		}
		if fenced = fencedLanes(sorted, alive); len(fenced) > 0 {
			return errFenced
		}
		if err := deliveredThere(ctx, state, sorted); err != nil {
			return err
		}
		if parksAny(sorted) {
			if err := settleParked(ctx, state, sorted, alive); err != nil {
				return err
			}
		}
		book := s.progress.Load()
		if err := settleProgress(ctx, state, book, book.writes(sorted)); err != nil {
			return err
		}
		failpoint.Hit(failpoint.InDelivery)
		return nil
	}, func(ctx context.Context) (bool, error) { return s.written(ctx, sorted) })
	switch {
	case err == nil:
		failpoint.Hit(failpoint.Committed)
		return nil, nil
	case own != nil:
		return nil, own
	case errors.Is(err, errFenced):
		return fenced, nil
	}
	if gone, ok := errors.AsType[*adapters.GoneError](err); ok {
		return nil, gone
	}
	return nil, stateError("deliver and settle", err)
}

// thereSQL locks parked rows, and returns which are there.
const thereSQL = `
SELECT p.route, p.slot, p.seq FROM outrider_parked AS p
JOIN unnest($1::text[], $2::smallint[], $3::bigint[]) AS u(route, slot, seq) ON p.route = u.route AND p.slot = u.slot AND p.seq = u.seq
FOR UPDATE OF p`

// deliveredThere returns a [*adapters.GoneError] for parked messages that were delivered and that an operator has removed meanwhile.
func deliveredThere(ctx context.Context, tx pgx.Tx, settlements []adapters.Settlement) error {
	var wanted parkedColumns
	gone := map[adapters.ParkedKey]bool{}
	for i := range settlements {
		for _, seq := range settlements[i].Delivered {
			wanted.addKey(settlements[i].LaneRef, seq)
			gone[adapters.ParkedKey{LaneRef: settlements[i].LaneRef, Seq: seq}] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, thereSQL, wanted.routes, wanted.slots, wanted.seqs)
	if err != nil {
		return err
	}
	var key adapters.ParkedKey
	if _, err := pgx.ForEachRow(rows, []any{&key.Route, &key.Slot, &key.Seq}, func() error {
		delete(gone, key)
		return nil
	}); err != nil || len(gone) == 0 {
		return err
	}
	return &adapters.GoneError{Keys: slices.Collect(maps.Keys(gone))}
}

// written reports whether settlements of one transaction are in the table. Writes of another owner since
// do not matter: the lane is not ours then.
func (s *Store) written(ctx context.Context, settlements []adapters.Settlement) (bool, error) {
	first := &settlements[0]
	found := false
	look := func(rows pgx.Rows) error {
		var epoch, revision int64
		_, err := pgx.ForEachRow(rows, []any{&epoch, &revision}, func() error {
			found = found || epoch == first.Epoch && revision >= first.Revision
			return nil
		})
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(writtenSQL, first.Route, int16(first.Slot)).Query(look)
	batch.Queue(writtenAsideSQL, first.Route, int16(first.Slot), first.Epoch).Query(look)
	err := s.pool.SendBatch(ctx, batch).Close()
	return found, err
}
