package statestore

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// database says how what is the same for all databases reaches this one.
func (s *Store) database() state.Database {
	return state.Database{Dialect: dialect, Name: "state store", Log: s.log, Migrations: stateMigrations, Version: s.version, Pool: stateRows{s.pool}, Transact: s.transact, Wrap: stateError, LockRoute: lockRoute, Move: move,
		Open: s.openSession, Sweep: s.sweep, EndSession: s.endSession}
}

// transact runs f in a transaction, and again as a whole after a deadlock.
func (s *Store) transact(ctx context.Context, f func(tx state.Tx) error) error {
	return pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(stateRows{tx}) })
	})
}

// dialect is PostgreSQL's SQL for parked messages, pauses and lanes.
var dialect = state.Dialect{
	Dialect: sqltext.Dialect{Param: sqltext.Dollar},
	Names: sqltext.Names{"now": "clock_timestamp()", "by": "by", "text": "text", "alive": aliveInstance, "flows": "status <> 'dead'",
		"beyond": "array_to_json(c.beyond)::text", "role": "role", "json": "::text::jsonb", "lock": " FOR UPDATE", "cursors": cursorsSQL},
	Micros:  func(column string) string { return "(extract(epoch FROM " + column + ") * 1000000)::bigint" },
	InGroup: "hashtextextended(coalesce(message_group, ''), 0) = hashtextextended(?, 0)",
	Later:   "clock_timestamp() + ?::bigint * interval '1 microsecond'", AliveOnce: true, RowOrder: true, SkipScan: true, Unnamed: true,
	RouteTables: []string{"outrider_progress"},
	OfGroup: func(packed string) (string, []any) {
		return "hashtextextended(coalesce(message_group, ''), 0) = hashtextextended(?, 0) AND coalesce(message_group, '') = ?", []any{packed, packed}
	},

	// A message without a group is a group of its own. The first message of each says when it continues.
	ParkedGroups: func(route string, slots []int) (string, []any) {
		return `
SELECT p.slot, coalesce(p.message_group, ''), g.messages, p.seq, p.status, coalesce((extract(epoch FROM p.next_attempt_at) * 1000000)::bigint, 0),
    (extract(epoch FROM p.parked_at) * 1000000)::bigint
FROM (
    SELECT slot, min(seq) AS first, count(*) AS messages FROM outrider_parked
    WHERE route = ? AND slot = ANY(?::smallint[]) AND status <> 'dead'
    GROUP BY slot, message_group, CASE WHEN message_group IS NULL THEN seq END
) g
JOIN outrider_parked p ON p.route = ? AND p.slot = g.slot AND p.seq = g.first
ORDER BY p.slot, p.seq`, []any{route, slots, route}
	},

	// This reads both partial indexes and no row.
	CountLanes: `
SELECT route, slot, count(*) FILTER (WHERE status = 'retrying') AS retrying, count(*) FILTER (WHERE status = 'waiting') AS waiting,
    count(*) FILTER (WHERE status = 'held') AS held, 0 AS dead
FROM outrider_parked WHERE status <> 'dead' GROUP BY route, slot
UNION ALL
SELECT route, slot, 0, 0, 0, count(*) FROM outrider_parked WHERE status = 'dead' GROUP BY route, slot`,

	Pause: func(route, address, group, reason, by string) (string, []any) {
		return "INSERT INTO outrider_pause (route, address, message_group, reason, by) VALUES (?, ?, ?, ?, ?) ON CONFLICT (route, md5(address)) DO NOTHING",
			[]any{route, address, group, reason, by}
	},
	PauseOf: func(address string) (string, []any) {
		return "md5(address) = md5(?) AND address = ?", []any{address, address}
	},
}

// stateRows is the pool or a transaction, as [state.Tx].
type stateRows struct {
	db interface {
		stateQuerier
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
}

// Each implements [state.Tx].
func (r stateRows) Each(ctx context.Context, s *sqltext.Statement, row func(scan func(...any) error) error) error {
	rows, err := r.db.Query(ctx, s.SQL(), s.Args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements [state.Tx].
func (r stateRows) Exec(ctx context.Context, s *sqltext.Statement) (int64, error) {
	tag, err := r.db.Exec(ctx, s.SQL(), s.Args...)
	return tag.RowsAffected(), err
}

const (
	// lockLanesSQL locks the cursor rows of a route in the order in which a
	// settle does.
	lockLanesSQL = `SELECT FROM outrider_cursor WHERE route = $1 ORDER BY slot FOR UPDATE`

	moveSQL = `
UPDATE outrider_cursor AS c
SET position = m.position, snapshot = m.snapshot, window_snapshot = m.window_snapshot, paged = m.paged, base = m.base,
    anchor = m.anchor, beyond = m.beyond::bigint[], epoch = c.epoch + 1, commands = c.commands + 1, owner = NULL, updated_at = clock_timestamp(),
    revision = greatest((c.revision >> 32) + 1, (extract(epoch FROM clock_timestamp()) / 60)::bigint) << 32,
    cluster = $10, source = coalesce(nullif($11, ''), c.source),
    former = CASE WHEN NOT $12 THEN '' WHEN c.cluster <> $10 THEN c.cluster ELSE c.former END
FROM unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[])
    AS m(slot, position, snapshot, window_snapshot, paged, base, anchor, beyond)
WHERE c.route = $1 AND c.slot = m.slot`
)

// lockRoute keeps acquirers of a route and settles of its lanes away until the
// transaction ends.
func lockRoute(ctx context.Context, tx state.Tx, route string) error {
	if _, err := tx.Exec(ctx, sqltext.Raw(routeLock, route)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqltext.Raw(lockLanesSQL, route))
	return err
}

// move places cursors.
func move(ctx context.Context, tx state.Tx, m adapters.Move) error {
	n := len(m.Cursors)
	slots, positions, paged, bases := make([]int16, n), make([]int64, n), make([]int64, n), make([]int64, n)
	snapshots, windows, anchors, beyond := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, slot := range slices.Sorted(maps.Keys(m.Cursors)) {
		c := m.Cursors[slot]
		slots[i], positions[i], snapshots[i] = int16(slot), c.Position, c.Snapshot
		windows[i], paged[i], bases[i] = c.Window, c.Paged, c.Base
		anchors[i], beyond[i] = state.AnchorText(c, m.Table), wire.Numbers(m.Beyond[slot])
	}
	if _, err := tx.Exec(ctx, sqltext.Raw(createLanesSQL, m.Route, slots)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqltext.Raw(moveSQL, m.Route, slots, positions, snapshots, windows, paged, bases, anchors, beyond,
		m.Table.Cluster, m.Table.Name, m.Same))
	return err
}
