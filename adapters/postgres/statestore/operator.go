package statestore

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	auditSQL = `INSERT INTO outrider_audit (by, action, filter, changed) VALUES ($1, $2, $3::jsonb, $4)`

	cursorsSQL = `
WITH i AS MATERIALIZED (SELECT i.id, ` + aliveInstance + ` AS alive FROM outrider_instance i)
SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce(i.alive, false), CASE WHEN c.owner IS NOT NULL THEN c.acquired_at END, c.epoch,
    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, c.beyond, c.cluster, c.source, c.anchor, c.former, c.updated_at,
    {counts}
FROM outrider_cursor c
LEFT JOIN i ON i.id = c.owner{counted}
ORDER BY c.route, c.slot`

	// countLanesSQL reads both partial indexes and no row.
	countLanesSQL = `
SELECT route, slot, count(*) FILTER (WHERE status = 'retrying'), count(*) FILTER (WHERE status = 'waiting'), count(*) FILTER (WHERE status = 'held'), 0
FROM outrider_parked WHERE status <> 'dead' GROUP BY route, slot
UNION ALL
SELECT route, slot, 0, 0, 0, count(*) FROM outrider_parked WHERE status = 'dead' GROUP BY route, slot`
)

// lanesSQL is cursorsSQL with the parked messages of each lane, as one snapshot sees both.
var (
	lanesSQL = strings.NewReplacer("{counts}", "coalesce(n.retrying, 0), coalesce(n.waiting, 0), coalesce(n.held, 0), coalesce(n.dead, 0)",
		"{counted}", `
LEFT JOIN (
    SELECT route, slot, sum(retrying)::bigint AS retrying, sum(waiting)::bigint AS waiting, sum(held)::bigint AS held, sum(dead)::bigint AS dead
    FROM (`+countLanesSQL+`) AS k(route, slot, retrying, waiting, held, dead) GROUP BY route, slot
) n ON n.route = c.route AND n.slot = c.slot`).Replace(cursorsSQL)
	bareSQL = strings.NewReplacer("{counts}", "0, 0, 0, 0", "{counted}", "").Replace(cursorsSQL)
)

// parkedDialect is PostgreSQL's SQL for parked messages.
var parkedDialect = staterow.Dialect{
	Parameter: "$", Now: "clock_timestamp()", Instant: func(t time.Time) any { return t }, ForUpdate: " FOR UPDATE", Micros: "(extract(epoch FROM %) * 1000000)::bigint",
	InGroup: "hashtextextended(coalesce(message_group, ''), 0) = hashtextextended(%, 0)",
	Later:   "clock_timestamp() + ?::bigint * interval '1 microsecond'", AliveInstance: aliveInstance,
}

// parkedTx is the pool or a transaction, as [staterow.Tx].
type parkedTx struct {
	db interface {
		stateQuerier
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
}

// Each implements [staterow.Tx].
func (t parkedTx) Each(ctx context.Context, s *staterow.Statement, row func(scan func(...any) error) error) error {
	rows, err := t.db.Query(ctx, s.SQL(), s.Args...)
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

// Exec implements [staterow.Tx].
func (t parkedTx) Exec(ctx context.Context, s *staterow.Statement) (int64, error) {
	tag, err := t.db.Exec(ctx, s.SQL(), s.Args...)
	return tag.RowsAffected(), err
}

// ListParked returns what the filter selects, by route, slot and seq.
func (s *Store) ListParked(ctx context.Context, f adapters.ParkedFilter) ([]adapters.Parked, error) {
	if err := staterow.CheckFilter(f); err != nil {
		return nil, stateError("list parked messages", err)
	}
	list := staterow.ListParked(parkedDialect, parkedFields, f)
	parked, err := s.queryParked(ctx, list.SQL(), list.Args...)
	return parked, stateError("list parked messages", err)
}

// CountParked counts what the command would change, by route and status.
func (s *Store) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	counts, err := staterow.CountParked(ctx, parkedDialect, parkedTx{s.pool}, c)
	return counts, stateError("count parked messages", err)
}

// ChangeParked carries out one step of a command, in one transaction.
func (s *Store) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if err := staterow.CheckCommand(c); err != nil {
		return step, stateError(string(c.Action), err)
	}
	err = pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			step, err = staterow.ChangeParked(ctx, parkedDialect, parkedTx{tx}, c)
			return err
		})
	})
	return step, stateError(string(c.Action), err)
}

// Lanes returns all cursor rows, by route and slot.
func (s *Store) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	return s.lanes(ctx, lanesSQL)
}

var _ adapters.LaneCounter = (*Store)(nil)

// Cursors implements [adapters.LaneCounter].
func (s *Store) Cursors(ctx context.Context) ([]adapters.LaneStatus, error) {
	return s.lanes(ctx, bareSQL)
}

// CountLanes implements [adapters.LaneCounter].
func (s *Store) CountLanes(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
	rows, err := s.pool.Query(ctx, countLanesSQL)
	if err != nil {
		return nil, stateError("count parked messages", err)
	}
	out := map[adapters.LaneRef]adapters.LaneCounts{}
	var l adapters.LaneRef
	var n adapters.LaneCounts
	_, err = pgx.ForEachRow(rows, []any{&l.Route, &l.Slot, &n.Retrying, &n.Waiting, &n.Held, &n.Dead}, func() error {
		all := out[l]
		out[l] = adapters.LaneCounts{Retrying: all.Retrying + n.Retrying, Waiting: all.Waiting + n.Waiting, Held: all.Held + n.Held, Dead: all.Dead + n.Dead}
		return nil
	})
	return out, stateError("count parked messages", err)
}

func (s *Store) lanes(ctx context.Context, sql string) ([]adapters.LaneStatus, error) {
	rows, err := s.pool.Query(ctx, sql)
	if err != nil {
		return nil, stateError("read the lanes", err)
	}
	lanes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l adapters.LaneStatus, err error) {
		c := &l.Cursor
		var since, updated *time.Time
		var anchor string
		err = row.Scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &since, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &l.Beyond, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Former, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead)
		if since != nil {
			l.Since = *since
		}
		if updated != nil {
			l.UpdatedAt = *updated
		}
		if err == nil {
			c.Anchor, err = adapters.ParseAnchor(anchor)
		}
		return l, err
	})
	return lanes, stateError("read the lanes", err)
}
