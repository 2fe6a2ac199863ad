package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// initLock lets those who initialise take turns: two CREATE OR REPLACE at once can
// fail, and two CREATE ... IF NOT EXISTS can both find nothing.
const InitLock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('outrider init', 0))"

// Step creates one thing.
type Step struct {
	What   string // for people
	Name   string // quoted and qualified, as to_regclass reads it
	Create string
}

// Run creates the thing where it is missing, and says which was the case.
func (s Step) Run(ctx context.Context, tx pgx.Tx) (string, error) {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.Name).Scan(&exists); err != nil {
		return "", err
	}
	if exists {
		return fmt.Sprintf("%s %s exists", s.What, s.Name), nil
	}
	if _, err := tx.Exec(ctx, s.Create); err != nil {
		return "", err
	}
	return fmt.Sprintf("created %s %s", s.What, s.Name), nil
}

// RunSteps creates what is missing of what a table needs, in one transaction. The
// steps are those for the table's full name.
func RunSteps(ctx context.Context, pool *pgxpool.Pool, table pgx.Identifier, steps func(pgx.Identifier) []Step) (done []string, err error) {
	err = BeginPinned(ctx, pool, func(tx pgx.Tx) error {
		done = nil
		if _, err := tx.Exec(ctx, InitLock); err != nil {
			return err
		}
		name, _, err := Locate(ctx, tx.Conn(), table)
		if err != nil {
			return err
		}
		for _, s := range steps(name) {
			said, err := s.Run(ctx, tx)
			if err != nil {
				return err
			}
			done = append(done, said)
		}
		return nil
	})
	return done, err
}
