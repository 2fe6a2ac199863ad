package statestore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// seenSQL looks each event up by the primary key. A scalar subquery is never
	// turned into a join, which would read the whole table when its statistics
	// are those of an empty one.
	seenSQL = `
SELECT coalesce((SELECT d.expires_at > clock_timestamp() FROM outrider_dedupe AS d
    WHERE d.route = k.route AND d.event_id = k.event_id), false)
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(route, event_id, n)
ORDER BY k.n`

	recordSQL = `
INSERT INTO outrider_dedupe (route, event_id, expires_at)
SELECT k.route, k.event_id, clock_timestamp() + k.micros * interval '1 microsecond'
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k(route, event_id, micros)
ON CONFLICT (route, event_id) DO UPDATE SET expires_at = EXCLUDED.expires_at`

	// expireSQL passes over rows that another instance is deleting or renewing.
	expireSQL = `
DELETE FROM outrider_dedupe WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM outrider_dedupe WHERE expires_at <= clock_timestamp()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`

	// dedupePlan has the statements planned at every call: a plan from when the
	// table was empty would read all of it, however large it has become.
	dedupePlan = pgx.QueryExecModeCacheDescribe
)

// Seen implements [adapters.DedupeStore] in one round trip.
func (s *Store) Seen(ctx context.Context, events []adapters.EventRef) ([]bool, error) {
	if len(events) == 0 {
		return nil, nil
	}
	routes, ids := make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		routes[i], ids[i] = state.Pack(e.Route), state.Key(e.ID)
	}
	rows, err := s.pool.Query(ctx, seenSQL, dedupePlan, routes, ids)
	if err != nil {
		return nil, stateError("look up events", err)
	}
	seen, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	return seen, stateError("look up events", err)
}

// Record implements [adapters.DedupeStore] in one round trip.
func (s *Store) Record(ctx context.Context, events []adapters.SeenEvent) error {
	if len(events) == 0 {
		return nil
	}
	sorted := state.SortSeen(events)
	routes, ids, micros := make([]string, len(sorted)), make([]string, len(sorted)), make([]int64, len(sorted))
	for i, e := range sorted {
		routes[i], ids[i], micros[i] = e.Route, e.ID, int64(e.Keep/time.Microsecond)
	}
	err := pg.RetryDeadlock(func() error {
		_, err := s.pool.Exec(ctx, recordSQL, dedupePlan, routes, ids, micros)
		return err
	})
	return stateError("record events", err)
}

// Expire implements [adapters.DedupeStore].
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, expireSQL, dedupePlan, limit)
	if err != nil {
		return 0, stateError("delete expired events", err)
	}
	return int(tag.RowsAffected()), nil
}
