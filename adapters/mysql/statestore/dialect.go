package statestore

import (
	"context"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

// database says how what is the same for all databases reaches this one.
func (s *Store) database() state.Database {
	return state.Database{
		Dialect: dialect, Name: "state store", Log: s.log, Migrations: stateMigrations, Version: s.version, Pool: state.SQLTx{DB: s.db}, Transact: state.SQLTransact(s.transact), Wrap: stateError, LockOwners: lockOwners, LockRoute: lockRoute, Move: move,
		Open: s.openSession, Sweep: s.sweep, EndSession: s.endSession,
	}
}

// dialect is MySQL's SQL for parked messages, pauses and lanes.
var dialect = state.Dialect{
	Dialect: sqltext.Dialect{Param: sqltext.Question, Value: state.AsMicros},
	Names: sqltext.Names{"now": now, "by": "`by`", "text": "char", "alive": aliveInstance, "flows": "flows = 1", "beyond": "c.beyond", "cursors": "outrider_cursor", "role": "role", "json": "",
		"lock": " FOR UPDATE"},
	Later: now + " + ?", OrderedUpdate: true, RouteTables: []string{"outrider_route"},
	OfGroup: func(packed string) (string, []any) {
		if packed == "" {
			return "group_hash IS NULL", nil
		}
		return "group_hash = ?", []any{hashOf(packed)}
	},

	// A message without a group is a group of its own. The first message of each says when it continues. Everything but that one
	// is read from an index.
	ParkedGroups: func(route string, slots []int) (string, []any) {
		in, args := state.List(slots)
		return `
SELECT p.slot, coalesce(p.message_group, ''), g.messages, p.seq, p.status, coalesce(p.next_attempt_at, 0), p.parked_at
FROM (
    SELECT slot, min(seq) AS first_seq, count(*) AS messages FROM outrider_parked
    WHERE route = ? AND slot IN ` + in + ` AND flows = 1
    GROUP BY slot, group_hash, CASE WHEN group_hash IS NULL THEN seq END
) AS g
STRAIGHT_JOIN outrider_parked AS p ON p.route = ? AND p.slot = g.slot AND p.seq = g.first_seq
ORDER BY p.slot, p.seq`, append(append([]any{route}, args...), route)
	},

	// This reads an index and no row.
	CountLanes: `
SELECT route, slot, sum(status = 'retrying') AS retrying, sum(status = 'waiting') AS waiting, sum(status = 'held') AS held, sum(status = 'dead') AS dead
FROM outrider_parked GROUP BY route, slot`,

	Pause: func(route, address, group, reason, by string) (string, []any) {
		return "INSERT IGNORE INTO outrider_pause (route, target, address, message_group, reason, `by`, at) VALUES (?, ?, ?, ?, ?, ?, " + now + ")",
			[]any{route, hashOf(address), address, group, reason, by}
	},
	PauseOf: func(address string) (string, []any) { return "target = ?", []any{hashOf(address)} },
}

// lockOwners keeps acquirers of a route away until the transaction ends.
func lockOwners(ctx context.Context, tx state.Tx, route string) error {
	_, err := tx.Exec(ctx, sqltext.Raw(routeLock, route))
	return err
}

// lockRoute keeps acquirers of a route and settles of its lanes away until the
// transaction ends.
func lockRoute(ctx context.Context, tx state.Tx, route string) error {
	if err := lockOwners(ctx, tx, route); err != nil {
		return err
	}
	return tx.Each(ctx, sqltext.Raw(`SELECT slot FROM outrider_cursor WHERE route = ? ORDER BY slot FOR UPDATE`, route), func(scan func(...any) error) error {
		var slot int
		return scan(&slot)
	})
}

// moveSQL names former before cluster: MySQL assigns from left to right, and what is read after an assignment is new.
const moveSQL = `UPDATE outrider_cursor
SET position = ?, snapshot = ?, window_snapshot = ?, paged = ?, base = ?, anchor = ?, beyond = ?,
    former = CASE WHEN NOT ? THEN '' WHEN cluster <> ? THEN cluster ELSE former END,
    cluster = ?, source = coalesce(nullif(?, ''), source), updated_at = ` + now + `,
    epoch = epoch + 1, commands = commands + 1, owner = NULL, revision = greatest((revision >> 32) + 1, unix_timestamp() DIV 60) << 32
WHERE route = ? AND slot = ?`

// move places cursors.
func move(ctx context.Context, tx state.Tx, m adapters.Move) error {
	slots := slices.Sorted(maps.Keys(m.Cursors))
	if err := createLanes(ctx, tx, m.Route, slots); err != nil {
		return err
	}
	for _, slot := range slots {
		c := m.Cursors[slot]
		if _, err := tx.Exec(ctx, sqltext.Raw(moveSQL, c.Position, c.Snapshot, c.Window, c.Paged, c.Base, state.AnchorText(c, m.Table), state.BeyondText(m.Beyond[slot]),
			m.Same, m.Table.Cluster, m.Table.Cluster, m.Table.Name, m.Route, slot)); err != nil {
			return err
		}
	}
	return nil
}
