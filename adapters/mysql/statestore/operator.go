package statestore

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	auditSQL = "INSERT INTO outrider_audit (`by`, action, filter, changed) VALUES (?, ?, ?, ?)"

	// countLanesSQL reads an index and no row.
	countLanesSQL = `
SELECT route, slot, sum(status = 'retrying') AS retrying, sum(status = 'waiting') AS waiting, sum(status = 'held') AS held, sum(status = 'dead') AS dead
FROM outrider_parked GROUP BY route, slot`
)

// cursorsSQL are the cursor rows, with counts where they are wanted.
var cursorsSQL = `
SELECT c.route, c.slot, coalesce(c.owner, ''), coalesce(` + aliveInstance + `, false), CASE WHEN c.owner IS NOT NULL THEN c.acquired_at END, c.epoch,
    c.position, c.snapshot, c.window_snapshot, c.paged, c.base, c.beyond, c.cluster, c.source, c.anchor, c.former, c.updated_at,
    {counts}
FROM outrider_cursor c
LEFT JOIN outrider_instance i ON i.id = c.owner{counted}
ORDER BY c.route, c.slot`

// lanesSQL is cursorsSQL with the parked messages of each lane, as one snapshot sees both.
var (
	lanesSQL = strings.NewReplacer("{counts}", "coalesce(n.retrying, 0), coalesce(n.waiting, 0), coalesce(n.held, 0), coalesce(n.dead, 0)",
		"{counted}", "\nLEFT JOIN ("+countLanesSQL+") AS n ON n.route = c.route AND n.slot = c.slot").Replace(cursorsSQL)
	bareSQL = strings.NewReplacer("{counts}", "0, 0, 0, 0", "{counted}", "").Replace(cursorsSQL)
)

// parkedDialect is MySQL's SQL for parked messages.
var parkedDialect = staterow.Dialect{
	Parameter: "?", MySQL: true, Now: now, Instant: func(t time.Time) any { return t.UnixMicro() }, ForUpdate: " FOR UPDATE",
	Later: now + " + ?", AliveInstance: aliveInstance,
}

// parkedTx is the database or a transaction, as [staterow.Tx].
type parkedTx struct{ db querier }

// Each implements [staterow.Tx].
func (t parkedTx) Each(ctx context.Context, s *staterow.Statement, row func(scan func(...any) error) error) error {
	return each(ctx, t.db, s.SQL(), s.Args, row)
}

// Exec implements [staterow.Tx].
func (t parkedTx) Exec(ctx context.Context, s *staterow.Statement) (int64, error) {
	n, err := affected(t.db.ExecContext(ctx, s.SQL(), s.Args...))
	return int64(n), err
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
	counts, err := staterow.CountParked(ctx, parkedDialect, parkedTx{s.db}, c)
	return counts, stateError("count parked messages", err)
}

// ChangeParked carries out one step of a command, in one transaction.
func (s *Store) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if err := staterow.CheckCommand(c); err != nil {
		return step, stateError(string(c.Action), err)
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		step, err = staterow.ChangeParked(ctx, parkedDialect, parkedTx{tx}, c)
		return err
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
	out := map[adapters.LaneRef]adapters.LaneCounts{}
	err := each(ctx, s.db, countLanesSQL, nil, func(scan func(...any) error) error {
		var l adapters.LaneRef
		var n adapters.LaneCounts
		err := scan(&l.Route, &l.Slot, &n.Retrying, &n.Waiting, &n.Held, &n.Dead)
		out[l] = n
		return err
	})
	return out, stateError("count parked messages", err)
}

func (s *Store) lanes(ctx context.Context, query string) (lanes []adapters.LaneStatus, err error) {
	err = each(ctx, s.db, query, nil, func(scan func(...any) error) error {
		var l adapters.LaneStatus
		var since, updated sql.NullInt64
		var beyond, anchor string
		c := &l.Cursor
		err := scan(&l.Route, &l.Slot, &l.Owner, &l.Alive, &since, &l.Epoch, &c.Position, &c.Snapshot, &c.Window,
			&c.Paged, &c.Base, &beyond, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Former, &updated, &l.Retrying, &l.Waiting, &l.Held, &l.Dead)
		if err == nil {
			c.Anchor, err = adapters.ParseAnchor(anchor)
		}
		if err == nil {
			l.Beyond, err = parseBeyond(l.LaneRef, beyond)
		}
		l.Since, l.UpdatedAt = instantOf(since), instantOf(updated)
		lanes = append(lanes, l)
		return err
	})
	return lanes, stateError("read the lanes", err)
}
