package statestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// routeLock serialises the acquirers of a route.
	routeLock = `SELECT pg_advisory_xact_lock(hashtextextended('outrider route ' || {schema} || ' ' || $1::text` +
		keyEnd + `)`

	// createLanesSQL begins epochs at the microsecond: those of a route that was
	// forgotten and comes back must not meet those of its former life.
	createLanesSQL = `
INSERT INTO outrider_cursor (route, slot, epoch)
SELECT $1, unnest($2::smallint[]), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
ON CONFLICT (route, slot) DO NOTHING`

	// acquireSQL takes lanes without a living owner: no owner, this instance, an owner
	// whose lease is over or who has left no row, or one whose advisory lock is
	// free. The look at the lock is shared, so that two who look at once do not
	// take each other for the owner. Epochs follow the clock, so that none comes
	// twice in a store that was put back to an earlier state. Of more than $4 our own go first, then
	// those without an owner.
	acquireSQL = `
WITH other AS MATERIALIZED (
    SELECT DISTINCT owner FROM outrider_cursor
    WHERE route = $2 AND slot = ANY($3::smallint[]) AND owner <> $1
), dead AS MATERIALIZED (
    SELECT o.owner FROM other o LEFT JOIN outrider_instance i ON i.id = o.owner
    WHERE i.id IS NULL OR i.lease_until <= clock_timestamp()
       OR pg_try_advisory_xact_lock_shared(` + instanceKey + `o.owner` + keyEnd + `)
), free AS MATERIALIZED (
    SELECT f.slot FROM outrider_cursor f
    WHERE f.route = $2 AND f.slot = ANY($3::smallint[])
      AND (f.owner IS NULL OR f.owner = $1 OR f.owner IN (SELECT d.owner FROM dead d))
    ORDER BY f.owner = $1 DESC NULLS LAST, f.owner IS NULL DESC, f.slot LIMIT $4
)
UPDATE outrider_cursor AS c SET owner = $1, epoch = greatest(c.epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), acquired_at = clock_timestamp()
FROM free WHERE c.route = $2 AND c.slot = free.slot
RETURNING c.route, c.slot, c.updated_at IS NULL, c.position, c.snapshot, c.window_snapshot, c.paged, c.base,
    c.beyond, c.next_seq, c.epoch, c.revision, c.cluster, c.source, c.anchor, c.commands`

	// otherTableSQL finds a cursor of a route that is another table's.
	otherTableSQL = `
SELECT c.cluster, c.source FROM outrider_cursor c
WHERE c.route = $1 AND (c.source <> '' OR c.updated_at IS NOT NULL)
  AND (c.cluster <> $2 OR $3 <> '' AND c.source NOT IN ('', $3))
ORDER BY c.slot LIMIT 1`

	bindSQL = `UPDATE outrider_cursor SET cluster = $2, source = $3 WHERE route = $1 AND source = ''`
)

// Acquire makes the instance the owner of the route's rows that have no living
// owner, of at most so many, and raises their epoch. Rows that it owns already
// are acquired again.
func (s *Store) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	s.mu.Lock()
	err := s.joined(instance)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	numbers := make([]int16, len(slots))
	for i, slot := range slots {
		if slot < 0 || slot >= adapters.Slots {
			return nil, fmt.Errorf("state store: acquire route %q: slot %d is not in 0..%d", route, slot, adapters.Slots-1)
		}
		numbers[i] = int16(slot)
	}
	var lanes []adapters.LaneState
	err = pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			lanes, err = acquire(ctx, tx, instance, route, numbers, most)
			return err
		})
	})
	return lanes, stateError(fmt.Sprintf("acquire lanes of route %q", route), err)
}

func acquire(ctx context.Context, tx pgx.Tx, instance, route string, slots []int16, most int) ([]adapters.LaneState, error) {
	if _, err := tx.Exec(ctx, routeLock, route); err != nil {
		return nil, err
	}
	var paused bool
	if err := tx.QueryRow(ctx, pausedSQL, route).Scan(&paused); err != nil {
		return nil, err
	}
	if paused {
		return nil, adapters.ErrPaused
	}
	if _, err := tx.Exec(ctx, createLanesSQL, route, slots); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, acquireSQL, instance, route, slots, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l adapters.LaneState, err error) {
		c := &l.Cursor
		var anchor string
		err = row.Scan(&l.Route, &l.Slot, &l.New, &c.Position, &c.Snapshot, &c.Window, &c.Paged, &c.Base,
			&l.Beyond, &l.NextSeq, &l.Epoch, &l.Revision, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Commands)
		if err == nil {
			c.Anchor, err = adapters.ParseAnchor(anchor)
		}
		return l, err
	})
}

// Bind implements [adapters.StateStore].
func (s *Store) Bind(ctx context.Context, route string, table adapters.Table) error {
	err := pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, routeLock, route); err != nil {
				return err
			}
			other := adapters.OtherTable{Source: table}
			err := tx.QueryRow(ctx, otherTableSQL, route, table.Cluster, table.Name).Scan(&other.Cursor.Cluster, &other.Cursor.Name)
			if err == nil {
				return &other
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			_, err = tx.Exec(ctx, bindSQL, route, table.Cluster, table.Name)
			return err
		})
	})
	if err != nil && !errors.As(err, new(*adapters.OtherTable)) {
		return stateError(fmt.Sprintf("say which table route %q reads", route), err)
	}
	return err
}
