package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/outbox"
)

const (
	// selectedSQL is the condition of a [staterow.Selector]: ?1 to ?4.
	selectedSQL = `(?1 = '' OR route = ?1) AND (?2 = '' OR message_group = ?2)
  AND (?3 = '' OR event_id = ?3) AND status IN (SELECT value FROM json_each(?4))`

	listParkedSQL = `SELECT ` + parkedFields + ` FROM outrider_parked
WHERE ` + selectedSQL + ` ORDER BY route, slot, seq LIMIT ?5`

	// commandLanesSQL raises the counters of the lanes with selected messages,
	// which tells their owner to load again.
	commandLanesSQL = `UPDATE outrider_cursor SET commands = commands + 1
WHERE (route, slot) IN (SELECT route, slot FROM outrider_parked WHERE ` + selectedSQL + `)`

	// chosenSQL selects at most ?5 rows; LIMIT -1 is none.
	chosenSQL = `(route, slot, seq) IN (
    SELECT route, slot, seq FROM outrider_parked WHERE ` + selectedSQL + `
    ORDER BY route, slot, seq LIMIT CASE ?5 WHEN 0 THEN -1 ELSE ?5 END)`

	redriveSQL = `UPDATE outrider_parked SET status = 'retrying', attempts = 0, next_attempt_at = ?6 WHERE ` + chosenSQL
	discardSQL = `DELETE FROM outrider_parked WHERE ` + chosenSQL

	auditSQL = `INSERT INTO outrider_audit (at, by, action, filter, changed) VALUES (?, ?, ?, ?, ?)`

	lanesSQL = `
SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce(i.lease_until > ?, 0), c.epoch,
    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, c.updated_at,
    coalesce(f.retrying, 0), coalesce(f.waiting, 0), coalesce(f.held, 0), coalesce(d.dead, 0)
FROM outrider_cursor c
LEFT JOIN outrider_instance i ON i.id = c.owner
LEFT JOIN (
    SELECT route, slot, sum(status = 'retrying') AS retrying, sum(status = 'waiting') AS waiting,
        sum(status = 'held') AS held
    FROM outrider_parked WHERE status <> 'dead' GROUP BY route, slot
) f ON f.route = c.route AND f.slot = c.slot
LEFT JOIN (
    SELECT route, slot, count(*) AS dead FROM outrider_parked WHERE status = 'dead' GROUP BY route, slot
) d ON d.route = c.route AND d.slot = c.slot
ORDER BY c.route, c.slot`
)

// ListParked returns what the filter selects, by route, slot and seq.
func (s *State) ListParked(ctx context.Context, f outbox.ParkedFilter) ([]outbox.Parked, error) {
	if err := staterow.CheckFilter(f); err != nil {
		return nil, s.wrap("list parked messages", err)
	}
	parked, err := s.queryParked(ctx, listParkedSQL, selectorArgs(staterow.ListSelector(f))...)
	if err != nil {
		return nil, s.wrap("list parked messages", err)
	}
	return parked, nil
}

// Redrive makes the selected dead, held and retrying messages due now, with
// their attempts forgotten. Waiting ones follow the head of their group anyway.
func (s *State) Redrive(ctx context.Context, f outbox.ParkedFilter, by string) (int, error) {
	args := append(selectorArgs(staterow.RedriveSelector(f)), time.Now().UnixMicro())
	return s.command(ctx, "redrive", redriveSQL, args, f, by)
}

// Discard deletes the selected dead, held and retrying messages, and waiting
// ones when the filter names that status.
func (s *State) Discard(ctx context.Context, f outbox.ParkedFilter, by string) (int, error) {
	return s.command(ctx, "discard", discardSQL, selectorArgs(staterow.DiscardSelector(f)), f, by)
}

// selectorArgs are the arguments ?1 to ?5 of the selector's statements.
func selectorArgs(sel staterow.Selector) []any {
	// Strings cannot fail to encode.
	statuses, _ := json.Marshal(sel.Statuses)
	return []any{sel.Route, sel.Group, sel.ID, string(statuses), sel.Limit}
}

func (s *State) command(ctx context.Context, action, query string, args []any, f outbox.ParkedFilter, by string) (int, error) {
	if err := staterow.CheckCommand(f); err != nil {
		return 0, s.wrap(action, err)
	}
	var changed int64
	err := s.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, commandLanesSQL, args[:4]...); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		if changed, err = result.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, auditSQL, time.Now().UnixMicro(), staterow.Clean(by), action, staterow.FilterJSON(f), changed)
		return err
	})
	if err != nil {
		return 0, s.wrap(action, err)
	}
	return int(changed), nil
}

// Lanes returns all cursor rows, by route and slot.
func (s *State) Lanes(ctx context.Context) ([]outbox.LaneStatus, error) {
	lanes, err := s.lanes(ctx)
	if err != nil {
		return nil, s.wrap("read the lanes", err)
	}
	return lanes, nil
}

func (s *State) lanes(ctx context.Context) ([]outbox.LaneStatus, error) {
	rows, err := s.db.QueryContext(ctx, lanesSQL, time.Now().UnixMicro())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	var lanes []outbox.LaneStatus
	for rows.Next() {
		var l outbox.LaneStatus
		var updated sql.NullInt64
		c := &l.Cursor
		if err := rows.Scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead); err != nil {
			return nil, err
		}
		l.UpdatedAt = instantOf(updated)
		lanes = append(lanes, l)
	}
	return lanes, rows.Err()
}
