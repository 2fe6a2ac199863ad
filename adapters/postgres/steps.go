package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// initLock lets those who initialise take turns: two CREATE OR REPLACE at once can
// fail, and two CREATE ... IF NOT EXISTS can both find nothing.
const initLock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('outrider init', 0))"

// step creates one thing.
type step struct {
	what   string // for people
	name   string // quoted and qualified, as to_regclass reads it
	create string
}

// run creates the thing where it is missing, and says which was the case.
func (s step) run(ctx context.Context, tx pgx.Tx) (string, error) {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.name).Scan(&exists); err != nil {
		return "", err
	}
	if exists {
		return fmt.Sprintf("%s %s exists", s.what, s.name), nil
	}
	if _, err := tx.Exec(ctx, s.create); err != nil {
		return "", err
	}
	return fmt.Sprintf("created %s %s", s.what, s.name), nil
}

// runSteps creates what is missing of what a table needs, in one transaction. The
// steps are those for the table's full name.
func runSteps(ctx context.Context, pool *pgxpool.Pool, table pgx.Identifier, steps func(pgx.Identifier) []step) (done []string, err error) {
	err = beginPinned(ctx, pool, func(tx pgx.Tx) error {
		done = nil
		if _, err := tx.Exec(ctx, initLock); err != nil {
			return err
		}
		name, _, err := locate(ctx, tx.Conn(), table)
		if err != nil {
			return err
		}
		for _, s := range steps(name) {
			said, err := s.run(ctx, tx)
			if err != nil {
				return err
			}
			done = append(done, said)
		}
		return nil
	})
	return done, err
}
