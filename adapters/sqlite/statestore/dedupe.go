package statestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

const (
	// seenSQL takes the keys as a JSON array, each an array of route and id.
	seenSQL = `
SELECT coalesce((SELECT d.expires_at > ?2 FROM outrider_dedupe AS d
    WHERE d.route = k.value->>0 AND d.event_id = k.value->>1), 0)
FROM json_each(?1) AS k ORDER BY k.key`

	recordSQL = `
INSERT INTO outrider_dedupe (route, event_id, expires_at)
SELECT value->>0, value->>1, value->>2 FROM json_each(?1) WHERE true
ON CONFLICT (route, event_id) DO UPDATE SET expires_at = excluded.expires_at`

	expireSQL = `
DELETE FROM outrider_dedupe WHERE (route, event_id) IN
    (SELECT route, event_id FROM outrider_dedupe WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)`
)

// Seen implements [adapters.DedupeStore] with one statement.
func (s *Store) Seen(ctx context.Context, events []adapters.EventRef) ([]bool, error) {
	keys := make([][2]string, len(events))
	for i, e := range events {
		keys[i] = [2]string{state.Pack(e.Route), state.Key(e.ID)}
	}
	doc, _ := json.Marshal(keys) // strings cannot fail to encode
	seen := make([]bool, 0, len(events))
	err := lite.RetryBusy(ctx, func() error {
		seen = seen[:0]
		rows, err := s.db.QueryContext(ctx, seenSQL, string(doc), time.Now().UnixMicro())
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // Err returns the error
		for rows.Next() {
			var known bool
			if err := rows.Scan(&known); err != nil {
				return err
			}
			seen = append(seen, known)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, s.wrap("look up events", err)
	}
	return seen, nil
}

// Record implements [adapters.DedupeStore] with one statement.
func (s *Store) Record(ctx context.Context, events []adapters.SeenEvent) error {
	now := time.Now()
	sorted := state.SortSeen(events)
	rows := make([][3]any, len(sorted))
	for i, e := range sorted {
		rows[i] = [3]any{e.Route, e.ID, now.Add(e.Keep).UnixMicro()}
	}
	doc, _ := json.Marshal(rows) // neither strings nor numbers can fail to encode
	err := s.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, recordSQL, string(doc))
		return err
	})
	if err != nil {
		return s.wrap("record events", err)
	}
	return nil
}

// Expire implements [adapters.DedupeStore].
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	var deleted int64
	err := s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, expireSQL, time.Now().UnixMicro(), limit)
		if err != nil {
			return err
		}
		deleted, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, s.wrap("delete expired events", err)
	}
	return int(deleted), nil
}
