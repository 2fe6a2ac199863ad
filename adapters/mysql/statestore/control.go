package statestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

const (
	// pausedSQL reports whether a route is paused, and returns the clock.
	pausedSQL = `SELECT EXISTS (SELECT 1 FROM outrider_pause WHERE route = ? AND target = ?), ` + now

	releaseSQL = `UPDATE outrider_cursor SET owner = NULL WHERE owner = ? AND ({these}) ORDER BY route, slot`
)

// fill puts a text into a statement, for {these}.
func fill(query, text string) string { return sqltext.Fill(query, sqltext.Names{"these": text}) }

// Release implements [adapters.StateStore].
func (s *Store) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	sorted := slices.SortedFunc(slices.Values(lanes), state.CompareLanes)
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for chunk := range slices.Chunk(sorted, keysAtOnce) {
			conditions, args := make([]string, len(chunk)), []any{instance}
			for i, l := range chunk {
				conditions[i], args = "route = ? AND slot = ?", append(args, l.Route, l.Slot)
			}
			if _, err := tx.ExecContext(ctx, fill(releaseSQL, strings.Join(conditions, " OR ")), args...); err != nil {
				return err
			}
		}
		return nil
	})
	return stateError(fmt.Sprintf("release lanes of %q", instance), err)
}
