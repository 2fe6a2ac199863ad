package statestore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

// database says how what is the same for all databases reaches this one.
func (s *Store) database() state.Database {
	return state.Database{
		Dialect: dialect, Name: "sqlite state", Log: slog.Default(), Migrations: migrationFiles, Version: s.version, Pool: state.SQLTx{DB: joining{s}}, Transact: state.SQLTransact(s.transact), Wrap: s.wrap, Move: move,
		Open: s.openSession, Sweep: func(context.Context) error { return nil }, // each announcement removes those of other instances
	}
}

// sqlNow is the clock of SQL in microseconds; it has milliseconds only.
const sqlNow = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"

// dialect is SQLite's SQL for parked messages, pauses and lanes.
var dialect = state.Dialect{
	Dialect: sqltext.Dialect{Param: func(n int) string { return "?" + strconv.Itoa(n) }, Value: state.AsMicros},
	Names: sqltext.Names{"now": sqlNow, "by": "by", "text": "text", "alive": "i.lease_until > " + sqlNow, "flows": "status <> 'dead'",
		"beyond": "c.beyond", "cursors": "outrider_cursor", "role": "''", "json": "", "lock": ""},
	Later: sqlNow + " + ?", AuditTime: true, OwnClock: true, RowOrder: true, SkipScan: true, Unnamed: true,
	OfGroup: func(packed string) (string, []any) { return "message_group IS nullif(?, '')", []any{packed} },

	// A message without a group is a group of its own. The columns next to min(seq) are those of the row that has it, as
	// SQLite defines it for a query with a single min.
	ParkedGroups: func(route string, slots []int) (string, []any) {
		in, args := state.List(slots)
		return `
SELECT slot, coalesce(message_group, ''), count(*), min(seq) AS first, status, coalesce(next_attempt_at, 0), parked_at
FROM outrider_parked WHERE route = ? AND slot IN ` + in + ` AND status <> 'dead'
GROUP BY slot, message_group, CASE WHEN message_group IS NULL THEN seq END
ORDER BY slot, first`, append([]any{route}, args...)
	},

	// This reads both partial indexes and no row.
	CountLanes: `
SELECT route, slot, sum(status = 'retrying') AS retrying, sum(status = 'waiting') AS waiting, sum(status = 'held') AS held, 0 AS dead
FROM outrider_parked WHERE status <> 'dead' GROUP BY route, slot
UNION ALL
SELECT route, slot, 0, 0, 0, count(*) FROM outrider_parked WHERE status = 'dead' GROUP BY route, slot`,

	Pause: func(route, address, group, reason, by string) (string, []any) {
		return "INSERT INTO outrider_pause (route, address, message_group, reason, by, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			[]any{route, address, group, reason, by, time.Now()}
	},
	PauseOf: func(address string) (string, []any) { return "address = ?", []any{address} },
}

const moveSQL = `UPDATE outrider_cursor
SET position = ?1, snapshot = ?2, window_snapshot = ?3, paged = ?4, base = ?5, anchor = ?6, beyond = ?13,
    former = CASE WHEN NOT ?9 THEN '' WHEN cluster <> ?7 THEN cluster ELSE former END,
    cluster = ?7, source = coalesce(nullif(?8, ''), source), updated_at = ?10,
    epoch = epoch + 1, commands = commands + 1, owner = NULL, revision = max((revision >> 32) + 1, ?10 / 60000000) << 32
WHERE route = ?11 AND slot = ?12`

// move places cursors.
func move(ctx context.Context, tx state.Tx, m adapters.Move) error {
	now := time.Now().UnixMicro()
	for slot, c := range m.Cursors {
		if _, err := tx.Exec(ctx, sqltext.Raw(createLaneSQL, m.Route, slot, now)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqltext.Raw(moveSQL, c.Position, c.Snapshot, c.Window, c.Paged, c.Base, state.AnchorText(c, m.Table),
			m.Table.Cluster, m.Table.Name, m.Same, now, m.Route, slot, state.BeyondText(m.Beyond[slot]))); err != nil {
			return err
		}
	}
	return nil
}

// Release implements [adapters.StateStore].
func (s *Store) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for _, l := range lanes {
			if _, err := tx.ExecContext(ctx, `UPDATE outrider_cursor SET owner = NULL WHERE owner = ? AND route = ? AND slot = ?`,
				instance, l.Route, l.Slot); err != nil {
				return err
			}
		}
		return nil
	})
	return s.wrap(fmt.Sprintf("release lanes of %q", instance), err)
}
