package statestore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// eventsAtOnce bounds the events of one statement.
const eventsAtOnce = 500

const (
	// seenSQL looks each event up by the primary key: a scalar subquery is never turned into a scan.
	seenOne = `SELECT ?, coalesce((SELECT d.expires_at > ` + now + ` FROM outrider_dedupe AS d WHERE d.route = ? AND d.event_id = ?), false)`

	recordSQL = `INSERT INTO outrider_dedupe (route, event_id, expires_at) VALUES {these} ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)`

	expiredSQL = `SELECT route, event_id FROM outrider_dedupe WHERE expires_at <= ` + now + ` ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED`
)

// Seen implements [adapters.DedupeStore].
func (s *Store) Seen(ctx context.Context, events []adapters.EventRef) ([]bool, error) {
	if len(events) == 0 {
		return nil, nil
	}
	seen, next := make([]bool, len(events)), 0
	for chunk := range slices.Chunk(events, eventsAtOnce) {
		args := make([]any, 0, 3*len(chunk))
		for _, e := range chunk {
			args = append(args, next, state.Pack(e.Route), state.Key(e.ID))
			next++
		}
		err := state.Each(ctx, s.db, seenOne+strings.Repeat(" UNION ALL "+seenOne, len(chunk)-1), args, func(scan func(...any) error) error {
			var n int
			var known bool
			if err := scan(&n, &known); err != nil {
				return err
			}
			seen[n] = known
			return nil
		})
		if err != nil {
			return nil, stateError("look up events", err)
		}
	}
	return seen, nil
}

// Record implements [adapters.DedupeStore].
func (s *Store) Record(ctx context.Context, events []adapters.SeenEvent) error {
	if len(events) == 0 {
		return nil
	}
	const row = `(?, ?, ` + now + ` + ?)`
	for chunk := range slices.Chunk(state.SortSeen(events), eventsAtOnce) {
		args := make([]any, 0, 3*len(chunk))
		for _, e := range chunk {
			args = append(args, e.Route, e.ID, e.Keep.Microseconds())
		}
		err := my.RetryConflict(ctx, func() error {
			_, err := s.db.ExecContext(ctx, fill(recordSQL, row+strings.Repeat(", "+row, len(chunk)-1)), args...)
			return err
		})
		if err != nil {
			return stateError("record events", err)
		}
	}
	return nil
}

// Expire implements [adapters.DedupeStore]. It passes over rows that another instance is deleting or renewing.
func (s *Store) Expire(ctx context.Context, limit int) (deleted int, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		deleted = 0
		var args []any
		err := state.Each(ctx, tx, expiredSQL, []any{limit}, func(scan func(...any) error) error {
			var route, id string
			err := scan(&route, &id)
			args = append(args, route, id)
			return err
		})
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(args, 2*eventsAtOnce) {
			const one = "route = ? AND event_id = ?"
			n, err := affected(tx.ExecContext(ctx, `DELETE FROM outrider_dedupe WHERE `+one+strings.Repeat(" OR "+one, len(chunk)/2-1), chunk...))
			if err != nil {
				return err
			}
			deleted += n
		}
		return nil
	})
	if err != nil {
		return 0, stateError("delete expired events", err)
	}
	return deleted, nil
}
