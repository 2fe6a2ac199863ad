package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/outbox"
)

const (
	// selectedSQL is the condition of a [staterow.Selector]: $1 to $4.
	selectedSQL = `($1 = '' OR route = $1) AND ($2 = '' OR message_group = $2)
  AND ($3 = '' OR event_id = $3) AND status = ANY($4::text[])`

	listParkedSQL = `SELECT ` + parkedFields + ` FROM outrider_parked
WHERE ` + selectedSQL + ` ORDER BY route, slot, seq LIMIT $5`

	// commandLanesSQL locks the cursor rows of the lanes that a command will
	// touch, in the order of the keys and before any parked row, as a settle
	// does. Raised, the counter tells the owner to load again.
	commandLanesSQL = `
WITH touched AS MATERIALIZED (
    SELECT c.route, c.slot FROM outrider_cursor c
    WHERE (c.route, c.slot) IN (SELECT DISTINCT route, slot FROM outrider_parked WHERE ` + selectedSQL + `)
    ORDER BY c.route, c.slot FOR UPDATE
)
UPDATE outrider_cursor AS c SET commands = c.commands + 1
FROM touched t WHERE c.route = t.route AND c.slot = t.slot
RETURNING c.route, c.slot`

	// chosenSQL are the rows of those lanes only: others may have parked more
	// meanwhile, and their owners would not be told.
	chosenSQL = `
WITH chosen AS MATERIALIZED (
    SELECT route, slot, seq FROM outrider_parked
    WHERE ` + selectedSQL + `
      AND (route, slot) IN (SELECT * FROM unnest($6::text[], $7::smallint[]))
    ORDER BY route, slot, seq LIMIT nullif($5, 0)
)`

	redriveSQL = chosenSQL + `
UPDATE outrider_parked AS p SET status = 'retrying', attempts = 0, next_attempt_at = clock_timestamp()
FROM chosen k WHERE p.route = k.route AND p.slot = k.slot AND p.seq = k.seq`

	discardSQL = chosenSQL + `
DELETE FROM outrider_parked AS p
USING chosen k WHERE p.route = k.route AND p.slot = k.slot AND p.seq = k.seq`

	auditSQL = `INSERT INTO outrider_audit (by, action, filter, changed) VALUES ($1, $2, $3::jsonb, $4)`

	lanesSQL = `
SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce(i.lease_until > clock_timestamp(), false), c.epoch,
    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, c.updated_at,
    coalesce(f.retrying, 0), coalesce(f.waiting, 0), coalesce(f.held, 0), coalesce(d.dead, 0)
FROM outrider_cursor c
LEFT JOIN outrider_instance i ON i.id = c.owner
LEFT JOIN (
    SELECT route, slot, count(*) FILTER (WHERE status = 'retrying') AS retrying,
        count(*) FILTER (WHERE status = 'waiting') AS waiting, count(*) FILTER (WHERE status = 'held') AS held
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
		return nil, stateError("list parked messages", err)
	}
	sel := staterow.ListSelector(f)
	parked, err := s.queryParked(ctx, listParkedSQL, sel.Route, sel.Group, sel.ID, sel.Statuses, sel.Limit)
	if err != nil {
		return nil, stateError("list parked messages", err)
	}
	return parked, nil
}

// Redrive makes the selected dead, held and retrying messages due now, with
// their attempts forgotten. Waiting ones follow the head of their group anyway.
func (s *State) Redrive(ctx context.Context, f outbox.ParkedFilter, by string) (int, error) {
	return s.command(ctx, "redrive", redriveSQL, f, staterow.RedriveSelector(f), by)
}

// Discard deletes the selected dead, held and retrying messages, and waiting
// ones when the filter names that status.
func (s *State) Discard(ctx context.Context, f outbox.ParkedFilter, by string) (int, error) {
	return s.command(ctx, "discard", discardSQL, f, staterow.DiscardSelector(f), by)
}

func (s *State) command(ctx context.Context, action, sql string, f outbox.ParkedFilter, sel staterow.Selector, by string) (int, error) {
	if err := staterow.CheckCommand(f); err != nil {
		return 0, stateError(action, err)
	}
	changed := 0
	err := retryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			routes, slots, err := commandLanes(ctx, tx, sel)
			if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, sql, sel.Route, sel.Group, sel.ID, sel.Statuses, sel.Limit, routes, slots)
			if err != nil {
				return err
			}
			changed = int(tag.RowsAffected())
			_, err = tx.Exec(ctx, auditSQL, staterow.Clean(by), action, staterow.FilterJSON(f), changed)
			return err
		})
	})
	if err != nil {
		return 0, stateError(action, err)
	}
	return changed, nil
}

// commandLanes raises the counters of the lanes with selected messages.
func commandLanes(ctx context.Context, tx pgx.Tx, sel staterow.Selector) (routes []string, slots []int16, err error) {
	rows, err := tx.Query(ctx, commandLanesSQL, sel.Route, sel.Group, sel.ID, sel.Statuses)
	if err != nil {
		return nil, nil, err
	}
	var route string
	var slot int16
	_, err = pgx.ForEachRow(rows, []any{&route, &slot}, func() error {
		routes, slots = append(routes, route), append(slots, slot)
		return nil
	})
	return routes, slots, err
}

// Lanes returns all cursor rows, by route and slot.
func (s *State) Lanes(ctx context.Context) ([]outbox.LaneStatus, error) {
	rows, err := s.pool.Query(ctx, lanesSQL)
	if err != nil {
		return nil, stateError("read the lanes", err)
	}
	lanes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l outbox.LaneStatus, err error) {
		c := &l.Cursor
		var updated *time.Time
		err = row.Scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead)
		if updated != nil {
			l.UpdatedAt = *updated
		}
		return l, err
	})
	if err != nil {
		return nil, stateError("read the lanes", err)
	}
	return lanes, nil
}
