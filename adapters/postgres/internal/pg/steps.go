package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// initLock lets those who initialise take turns: two CREATE OR REPLACE at once can
// fail, and two CREATE ... IF NOT EXISTS can both find nothing.
const initLock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('outrider init', 0))"

// InTurn runs f, which initialises something of a table, in a transaction that no other
// initialisation gets in between, with the table's full name.
func InTurn(ctx context.Context, pool *pgxpool.Pool, table pgx.Identifier, f func(tx pgx.Tx, full pgx.Identifier) error) error {
	return BeginPinned(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, initLock); err != nil {
			return err
		}
		full, _, err := Locate(ctx, tx.Conn(), table)
		if err != nil {
			return err
		}
		return f(tx, full)
	})
}

// Step creates one thing.
type Step struct {
	What   string // for people
	Name   string // quoted and qualified, as to_regclass reads it
	Create string
}

// run creates the thing where it is missing, and says which was the case.
func (s Step) run(ctx context.Context, tx pgx.Tx) (string, error) {
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

// CreateIndex creates an index by its qualified and quoted name without stopping writers, in place of what a failed
// attempt left: one that is not valid, and has the name. Create is the whole statement, with CONCURRENTLY.
func CreateIndex(ctx context.Context, pool *pgxpool.Pool, name, create string) error {
	var broken bool
	err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_index "+
		"WHERE indexrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1::pg_catalog.text)::pg_catalog.oid AND NOT indisvalid)", name).Scan(&broken)
	if err != nil {
		return err
	}
	if broken {
		if _, err := pool.Exec(ctx, "DROP INDEX CONCURRENTLY "+name); err != nil {
			return err
		}
	}
	_, err = pool.Exec(ctx, create)
	return err
}

// RunSteps takes the steps, and says what each did.
func RunSteps(ctx context.Context, tx pgx.Tx, steps []Step) (done []string, err error) {
	for _, s := range steps {
		said, err := s.run(ctx, tx)
		if err != nil {
			return nil, err
		}
		done = append(done, said)
	}
	return done, nil
}
