package queuetable

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// A session may lock rows of a table and not let go, as a forgotten transaction does. Nothing here waits for it: what a settle has locked, rows of
// many groups and lanes that the next owner wants, would be locked for as long, also after this process was killed. Claims skip such
// rows. A settle gives up after a moment, and is done without them.

// briefLocks bounds the waits of a transaction. SET LOCAL would warn in a batch.
const briefLocks = "SELECT pg_catalog.set_config('lock_timeout', '20ms', true)"

// elsewhere finds which rows other sessions have locked, and locks the others as a settle does. Parameter: keys.
func (q *queueSQL) elsewhere() string {
	asked, strength := "unnest($1::{key[]}) WITH ORDINALITY AS s(key, n) JOIN {t} t ON {key} = s.key", "NO KEY UPDATE"
	if q.layout.DoneIsDeleted {
		strength = "UPDATE"
	}
	return q.fill("WITH free AS MATERIALIZED (SELECT s.n FROM " + asked + " FOR " + strength + " OF t SKIP LOCKED)\n" +
		"SELECT s.n::int FROM " + asked + " WHERE s.n NOT IN (SELECT f.n FROM free f)")
}

// locked are the claims of rows that other sessions have locked. In a transaction the other rows are locked by it.
func (s *settling) locked(ctx context.Context, in pg.Querier) (map[*adapters.Claim]bool, error) {
	claims := map[*adapters.Claim]bool{}
	for _, part := range s.order {
		if part.text == "" {
			continue
		}
		results := s.parts[part].results
		keys := wire.NewArray(len(results), keyBytes)
		for _, r := range results {
			keys.Text(r.Claim.Key)
		}
		s.q.mu.Lock() // describing the table writes it
		text := part.table.text.elsewhere
		s.q.mu.Unlock()
		rows, err := in.Query(ctx, text, keys.String())
		if err != nil {
			return nil, err
		}
		if err := markSettled(func(n int) { claims[results[n].Claim] = true })(rows); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// runFree writes the results of rows that no other session has locked. They are locked first, so no statement waits for a row.
func (s *settling) runFree(ctx context.Context, results []adapters.ClaimResult) (free *settling, lost []*adapters.Claim, err error) {
	var settled [][]bool
	skipped := &adapters.LockedError{}
	err = pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.q.pool, func(tx pgx.Tx) error {
			free = s
			locked, err := s.locked(ctx, tx)
			if err != nil {
				return err
			}
			skipped.Claims = nil
			rest := slices.DeleteFunc(slices.Clone(results), func(r adapters.ClaimResult) bool {
				if locked[r.Claim] {
					skipped.Claims = append(skipped.Claims, r.Claim)
				}
				return locked[r.Claim]
			})
			free, lost = s.q.settling(rest)
			free.back, settled = s.back, make([][]bool, len(free.order))
			return tx.SendBatch(ctx, free.batch(settled, false)).Close()
		})
	})
	if err == nil {
		err = free.end(ctx, settled)
	}
	if err == nil && len(skipped.Claims) > 0 {
		err = skipped
	}
	return free, lost, err
}
