package statestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/internal/failpoint"
)

const (
	// createLaneSQL begins epochs at the microsecond: those of a route that was
	// forgotten and comes back must not meet those of its former life.
	createLaneSQL = `INSERT INTO outrider_cursor (route, slot, epoch) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`

	// acquireSQL does not check the owner of the row: this process has the lock, so any
	// former owner is dead. Epochs follow the clock, so that none comes twice in a file
	// that was replaced by an older copy.
	acquireSQL = `UPDATE outrider_cursor SET owner = ?1, epoch = max(epoch + 1, ?2), acquired_at = ?2 WHERE route = ?3 AND slot = ?4
RETURNING route, slot, updated_at IS NULL, position, snapshot, window_snapshot, paged, base, beyond, next_seq, epoch, revision, cluster, source, anchor, commands`

	settleSQL = `UPDATE outrider_cursor SET position = ?, snapshot = ?, window_snapshot = ?, paged = ?, base = ?,
    beyond = ?, next_seq = ?, cluster = ?, source = ?, anchor = ?, revision = ?, updated_at = ?
WHERE route = ? AND slot = ? AND epoch = ? AND revision >= ?`

	pausedSQL = `SELECT EXISTS (SELECT 1 FROM outrider_pause WHERE route = ? AND address = '')`

	unparkSQL = `DELETE FROM outrider_parked WHERE route = ? AND slot = ? AND seq = ?`

	parkSQL = `
INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, next_attempt_at, last_error,
    event_id, event_type, position, metadata, payload, parked_at, tries, failure)
SELECT ?1, ?2, ?3, nullif(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?17, ?18
WHERE (?3 >= ?15 OR EXISTS (SELECT 1 FROM outrider_parked WHERE route = ?1 AND slot = ?2 AND seq = ?3))
    AND (?16 = 0 OR NOT EXISTS (SELECT 1 FROM outrider_parked WHERE route = ?1 AND slot = ?2 AND seq = ?3
        AND attempts = 0 AND status = 'retrying'))
ON CONFLICT (route, slot, seq) DO UPDATE SET message_group = excluded.message_group, status = excluded.status,
    attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error,
    event_id = excluded.event_id, event_type = excluded.event_type, position = excluded.position,
    metadata = excluded.metadata, payload = excluded.payload, tries = excluded.tries, failure = excluded.failure`
)

// Acquire makes the instance the owner of the route's rows, of at most so many,
// and raises their epoch. A paused route is refused.
func (s *Store) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	if err := s.MayAcquire(instance, route, slots); err != nil {
		return nil, err
	}
	var lanes []adapters.LaneState
	err := s.transact(ctx, func(tx *sql.Tx) error {
		var paused bool
		if err := tx.QueryRowContext(ctx, pausedSQL, route).Scan(&paused); err != nil {
			return err
		}
		if paused {
			return adapters.ErrPaused
		}
		slots, err := ownFirst(ctx, tx, instance, route, slots)
		if err != nil {
			return err
		}
		lanes = make([]adapters.LaneState, max(min(len(slots), most), 0))
		for i, slot := range slots[:len(lanes)] {
			if lanes[i], err = acquire(ctx, tx, instance, route, slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.wrap(fmt.Sprintf("acquire lanes of route %q", route), err)
	}
	return lanes, nil
}

// ownFirst returns the slots, those that the instance owns first.
func ownFirst(ctx context.Context, tx *sql.Tx, instance, route string, slots []int) ([]int, error) {
	rows, err := tx.QueryContext(ctx, `SELECT slot FROM outrider_cursor WHERE route = ? AND owner = ?`, route, instance)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	own := map[int]int{}
	for rows.Next() {
		var slot int
		if err := rows.Scan(&slot); err != nil {
			return nil, err
		}
		own[slot] = 1
	}
	return slices.SortedStableFunc(slices.Values(slots), func(a, b int) int { return own[b] - own[a] }), rows.Err()
}

func acquire(ctx context.Context, tx *sql.Tx, instance, route string, slot int) (adapters.LaneState, error) {
	now := time.Now().UnixMicro()
	if _, err := tx.ExecContext(ctx, createLaneSQL, route, slot, now); err != nil {
		return adapters.LaneState{}, err
	}
	return state.ScanLane(tx.QueryRowContext(ctx, acquireSQL, instance, now, route, slot).Scan)
}

// Settle writes all settlements in one transaction and returns the lanes whose
// epoch has moved on; nothing of those is written.
func (s *Store) Settle(ctx context.Context, settlements []adapters.Settlement) ([]adapters.LaneRef, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	sorted, err := state.SortSettlements(settlements)
	if err != nil {
		return nil, s.wrap("settle", err)
	}
	var fenced []adapters.LaneRef
	err = s.transact(ctx, func(tx *sql.Tx) error {
		fenced, err = settle(ctx, tx, sorted)
		failpoint.Hit(failpoint.InSettle)
		return err
	})
	if err != nil {
		return nil, s.wrap("settle", err)
	}
	return fenced, nil
}

func settle(ctx context.Context, tx *sql.Tx, settlements []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	statements, err := prepare(ctx, tx, settleSQL, unparkSQL, parkSQL)
	if err != nil {
		return nil, err
	}
	cursor, unpark, park := statements[0], statements[1], statements[2]
	now := time.Now().UnixMicro()
	for i := range settlements {
		t := &settlements[i]
		written, err := settleCursor(ctx, cursor, t, now)
		if err != nil {
			return nil, err
		}
		if !written {
			fenced = append(fenced, t.LaneRef)
			continue
		}
		for _, seq := range t.Unpark {
			if _, err := unpark.ExecContext(ctx, t.Route, t.Slot, seq); err != nil {
				return nil, err
			}
		}
		for j := range t.Park {
			if err := parkOne(ctx, park, t, &t.Park[j], now); err != nil {
				return nil, err
			}
		}
	}
	return fenced, nil
}

// prepare prepares statements that end with the transaction.
func prepare(ctx context.Context, tx *sql.Tx, queries ...string) ([]*sql.Stmt, error) {
	statements := make([]*sql.Stmt, len(queries))
	for i, query := range queries {
		var err error
		if statements[i], err = tx.PrepareContext(ctx, query); err != nil { //nolint:sqlclosecheck // the end of the transaction closes it
			return nil, err
		}
	}
	return statements, nil
}

// settleCursor reports whether the row was still its owner's, and as that one left it.
func settleCursor(ctx context.Context, update *sql.Stmt, t *adapters.Settlement, now int64) (bool, error) {
	c := &t.Cursor
	result, err := update.ExecContext(ctx, c.Position, c.Snapshot, c.Window, c.Paged, c.Base, state.BeyondText(t.Beyond), t.NextSeq,
		t.Table.Cluster, t.Table.Name, state.AnchorText(*c, t.Table), t.Revision, now, t.Route, t.Slot, t.Epoch, t.Confirmed)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

func parkOne(ctx context.Context, insert *sql.Stmt, t *adapters.Settlement, p *adapters.Parked, now int64) error {
	c := state.ColumnsOf(t.Route, p)
	_, err := insert.ExecContext(ctx, t.Route, t.Slot, p.Seq, c.Group, c.Status, p.Attempts, c.DueMicros(), c.Error, c.ID, c.Type, p.Position,
		c.Metadata, c.Payload, now, t.Stored, p.Was, c.Tries, c.Failure)
	return err
}
