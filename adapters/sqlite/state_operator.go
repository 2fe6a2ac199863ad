package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	auditSQL = `INSERT INTO outrider_audit (at, by, action, filter, changed) VALUES (?, ?, ?, ?, ?)`

	cursorsSQL = `
SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce(i.lease_until > ?, 0),
    CASE WHEN c.owner IS NOT NULL THEN c.acquired_at END, c.epoch,
    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, c.beyond, c.cluster, c.source, c.anchor, c.former, c.updated_at,
    {counts}
FROM outrider_cursor c
LEFT JOIN outrider_instance i ON i.id = c.owner{counted}
ORDER BY c.route, c.slot`

	// countLanesSQL reads both partial indexes and no row.
	countLanesSQL = `
SELECT route, slot, sum(status = 'retrying') AS retrying, sum(status = 'waiting') AS waiting, sum(status = 'held') AS held, 0 AS dead
FROM outrider_parked WHERE status <> 'dead' GROUP BY route, slot
UNION ALL
SELECT route, slot, 0, 0, 0, count(*) FROM outrider_parked WHERE status = 'dead' GROUP BY route, slot`
)

// lanesSQL is cursorsSQL with the parked messages of each lane, as one snapshot sees both.
var (
	lanesSQL = strings.NewReplacer("{counts}", "coalesce(n.retrying, 0), coalesce(n.waiting, 0), coalesce(n.held, 0), coalesce(n.dead, 0)",
		"{counted}", `
LEFT JOIN (
    SELECT route, slot, sum(retrying) AS retrying, sum(waiting) AS waiting, sum(held) AS held, sum(dead) AS dead FROM (`+countLanesSQL+`) GROUP BY route, slot
) n ON n.route = c.route AND n.slot = c.slot`).Replace(cursorsSQL)
	bareSQL = strings.NewReplacer("{counts}", "0, 0, 0, 0", "{counted}", "").Replace(cursorsSQL)
)

// parkedDialect is SQLite's SQL for parked messages.
var parkedDialect = staterow.Dialect{
	Parameter: "?", Now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	Instant: func(t time.Time) any { return t.UnixMicro() }, AuditTime: true,
	Later: "CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?", AliveInstance: "i.lease_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
}

// parkedTx is the database or a transaction, as [staterow.Tx].
type parkedTx struct {
	db interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
}

// Each implements [staterow.Tx].
func (t parkedTx) Each(ctx context.Context, s *staterow.Statement, row func(scan func(...any) error) error) error {
	rows, err := t.db.QueryContext(ctx, s.SQL(), s.Args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements [staterow.Tx].
func (t parkedTx) Exec(ctx context.Context, s *staterow.Statement) (int64, error) {
	result, err := t.db.ExecContext(ctx, s.SQL(), s.Args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// ListParked returns what the filter selects, by route, slot and seq.
func (s *State) ListParked(ctx context.Context, f adapters.ParkedFilter) ([]adapters.Parked, error) {
	if err := staterow.CheckFilter(f); err != nil {
		return nil, s.wrap("list parked messages", err)
	}
	list := staterow.ListParked(parkedDialect, parkedFields, f)
	parked, err := s.queryParked(ctx, list.SQL(), list.Args...)
	if err != nil {
		return nil, s.wrap("list parked messages", err)
	}
	return parked, nil
}

// CountParked counts what the command would change, by route and status.
func (s *State) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	counts, err := staterow.CountParked(ctx, parkedDialect, parkedTx{s.db}, c)
	if err != nil {
		return nil, s.wrap("count parked messages", err)
	}
	return counts, nil
}

// ChangeParked carries out one step of a command, in one transaction.
func (s *State) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if err := staterow.CheckCommand(c); err != nil {
		return step, s.wrap(string(c.Action), err)
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		step, err = staterow.ChangeParked(ctx, parkedDialect, parkedTx{tx}, c)
		return err
	})
	if err != nil {
		return adapters.ParkedStep{}, s.wrap(string(c.Action), err)
	}
	return step, nil
}

// Lanes returns all cursor rows, by route and slot.
func (s *State) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	lanes, err := s.lanes(ctx, lanesSQL)
	if err != nil {
		return nil, s.wrap("read the lanes", err)
	}
	return lanes, nil
}

var _ adapters.LaneCounter = (*State)(nil)

// Cursors implements [adapters.LaneCounter].
func (s *State) Cursors(ctx context.Context) ([]adapters.LaneStatus, error) {
	lanes, err := s.lanes(ctx, bareSQL)
	if err != nil {
		return nil, s.wrap("read the lanes", err)
	}
	return lanes, nil
}

// CountLanes implements [adapters.LaneCounter].
func (s *State) CountLanes(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
	out, err := s.countLanes(ctx)
	if err != nil {
		return nil, s.wrap("count parked messages", err)
	}
	return out, nil
}

func (s *State) countLanes(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
	rows, err := s.db.QueryContext(ctx, countLanesSQL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	out := map[adapters.LaneRef]adapters.LaneCounts{}
	for rows.Next() {
		var l adapters.LaneRef
		var n adapters.LaneCounts
		if err := rows.Scan(&l.Route, &l.Slot, &n.Retrying, &n.Waiting, &n.Held, &n.Dead); err != nil {
			return nil, err
		}
		all := out[l]
		out[l] = adapters.LaneCounts{Retrying: all.Retrying + n.Retrying, Waiting: all.Waiting + n.Waiting, Held: all.Held + n.Held, Dead: all.Dead + n.Dead}
	}
	return out, rows.Err()
}

func (s *State) lanes(ctx context.Context, query string) ([]adapters.LaneStatus, error) {
	rows, err := s.db.QueryContext(ctx, query, time.Now().UnixMicro())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var lanes []adapters.LaneStatus
	for rows.Next() {
		var l adapters.LaneStatus
		var since, updated sql.NullInt64
		var beyond, anchor string
		c := &l.Cursor
		if err := rows.Scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &since, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &beyond, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Former, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead); err != nil {
			return nil, err
		}
		if c.Anchor, err = adapters.ParseAnchor(anchor); err != nil {
			return nil, err
		}
		if l.Beyond, err = parseBeyond(l.LaneRef, beyond); err != nil {
			return nil, err
		}
		l.Since, l.UpdatedAt = instantOf(since), instantOf(updated)
		lanes = append(lanes, l)
	}
	return lanes, rows.Err()
}
