package statestore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// routeLock serialises the acquirers of a route.
	routeLock = `SELECT pg_advisory_xact_lock(hashtextextended('outrider route ' || {schema} || ' ' || $1::text` +
		keyEnd + `)`

	// createLanesSQL begins epochs at the microsecond: those of a route that was
	// forgotten and comes back must not meet those of its former life.
	createLanesSQL = createLanes + onceCreated

	// createUnpausedSQL is createLanesSQL, unless the route is paused.
	createUnpausedSQL = createLanes + ` WHERE NOT (` + pausedRoute + `)` + onceCreated

	createLanes = `
INSERT INTO outrider_cursor (route, slot, epoch)
SELECT $1, unnest($2::smallint[]), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

	onceCreated = ` ON CONFLICT (route, slot) DO NOTHING`

	// acquireSQL takes lanes without a living owner: no owner, this instance, an owner
	// whose lease is over or who has left no row, or one whose advisory lock is
	// free. The query for the lock is shared, so that two who ask at once do not
	// take each other for the owner. Epochs follow the clock, so that none comes
	// twice in a store that was put back to an earlier state. Of more than $4 our own go first, then
	// those without an owner.
	acquireSQL = `
WITH other AS MATERIALIZED (
    SELECT DISTINCT owner FROM outrider_cursor
    WHERE route = $1 AND slot = ANY($2::smallint[]) AND owner <> $3
), dead AS MATERIALIZED (
    SELECT o.owner FROM other o LEFT JOIN outrider_instance i ON i.id = o.owner
    WHERE i.id IS NULL OR i.lease_until <= clock_timestamp()
       OR pg_try_advisory_xact_lock_shared(` + instanceKey + `o.owner` + keyEnd + `)
), free AS MATERIALIZED (
    SELECT f.slot FROM outrider_cursor f
    WHERE f.route = $1 AND f.slot = ANY($2::smallint[]) AND NOT (` + pausedRoute + `)
      AND (f.owner IS NULL OR f.owner = $3 OR f.owner IN (SELECT d.owner FROM dead d))
    ORDER BY f.owner = $3 DESC NULLS LAST, f.owner IS NULL DESC, f.slot LIMIT $4
)
UPDATE outrider_cursor AS c SET owner = $3, epoch = greatest(c.epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), acquired_at = clock_timestamp()
FROM free WHERE c.route = $1 AND c.slot = free.slot
RETURNING c.route, c.slot, c.updated_at IS NULL, c.position, c.snapshot, c.window_snapshot, c.paged, c.base,
    c.beyond, c.next_seq, c.epoch, c.revision, c.cluster, c.source, c.anchor, c.commands`

	// otherTable finds a cursor of a route that is another table's.
	otherTable = ` FROM outrider_cursor o
WHERE o.route = $1 AND (o.source <> '' OR o.updated_at IS NOT NULL)
  AND (o.cluster <> $2::text OR $3::text <> '' AND o.source NOT IN ('', $3::text))`

	otherTableSQL = `SELECT o.cluster, o.source` + otherTable + ` ORDER BY o.slot LIMIT 1`

	bindSQL = `UPDATE outrider_cursor c SET cluster = $2, source = $3 WHERE c.route = $1 AND c.source = '' AND NOT EXISTS (SELECT` + otherTable + `)`
)

// Acquire makes the instance the owner of the route's rows that have no living
// owner, of at most so many, and raises their epoch. Rows that it owns already
// are acquired again.
func (s *Store) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	err := s.MayAcquire(instance, route, slots)
	if err != nil {
		return nil, err
	}
	numbers := make([]int16, len(slots))
	for i, slot := range slots {
		numbers[i] = int16(slot)
	}
	var lanes []adapters.LaneState
	err = pg.RetryDeadlock(func() (err error) {
		lanes, err = s.acquire(ctx, instance, route, numbers, most)
		return err
	})
	return lanes, stateError(fmt.Sprintf("acquire lanes of route %q", route), err)
}

// acquire is one batch, which is a transaction: an instance may have hundreds of routes, which wait for each other's round trips.
func (s *Store) acquire(ctx context.Context, instance, route string, slots []int16, most int) (lanes []adapters.LaneState, err error) {
	paused, batch := false, &pgx.Batch{}
	batch.Queue(routeLock, route)
	batch.Queue(pausedSQL, route).QueryRow(func(row pgx.Row) error { return row.Scan(&paused) })
	batch.Queue(createUnpausedSQL, route, slots)
	batch.Queue(acquireSQL, route, slots, instance, most).Query(func(rows pgx.Rows) (err error) {
		lanes, err = collectStates(rows)
		return err
	})
	switch err := s.pool.SendBatch(ctx, batch).Close(); {
	case err != nil:
		return nil, err
	case paused:
		return nil, adapters.ErrPaused
	}
	return lanes, nil
}

// collectStates reads what acquireSQL returns.
func collectStates(rows pgx.Rows) ([]adapters.LaneState, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l adapters.LaneState, err error) {
		c := &l.Cursor
		var anchor string
		err = row.Scan(&l.Route, &l.Slot, &l.New, &c.Position, &c.Snapshot, &c.Window, &c.Paged, &c.Base,
			&l.Beyond, &l.NextSeq, &l.Epoch, &l.Revision, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Commands)
		if err == nil {
			err = state.ReadAnchorText(anchor, c, &l.Table)
		}
		return l, err
	})
}

// Bind implements [adapters.StateStore].
func (s *Store) Bind(ctx context.Context, route string, table adapters.Table) error {
	found, other := false, &adapters.OtherTable{Source: table}
	err := pg.RetryDeadlock(func() error {
		batch := &pgx.Batch{} // as in acquire
		batch.Queue(routeLock, route)
		batch.Queue(otherTableSQL, route, table.Cluster, table.Name).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&other.Cursor.Cluster, &other.Cursor.Name}, func() error {
				found = true
				return nil
			})
			return err
		})
		batch.Queue(bindSQL, route, table.Cluster, table.Name)
		return s.pool.SendBatch(ctx, batch).Close()
	})
	switch {
	case err != nil:
		return stateError(fmt.Sprintf("say which table route %q reads", route), err)
	case found:
		return other
	}
	return nil
}
