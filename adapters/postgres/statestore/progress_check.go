package statestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// CheckProgress implements [adapters.ProgressStore].
func (s *Store) CheckProgress(ctx context.Context) error {
	b := s.progress.Load()
	if b == nil {
		return nil
	}
	for _, name := range b.given {
		if err := s.placeProgress(ctx, name); err != nil {
			return err
		}
	}
	s.keepProgress(b.instance, b.asGiven)
	b = s.progress.Load()
	var errs []error
	for _, t := range b.tables {
		errs = append(errs, s.checkProgress(ctx, t))
	}
	return errors.Join(errs...)
}

// placeProgress finds the schema of a table: the store's connections have a search path of their own.
func (s *Store) placeProgress(ctx context.Context, name string) error {
	if _, known := s.places.Load(name); known {
		return nil
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return stateError("connect", err)
	}
	defer conn.Release()
	full, _, err := pg.Locate(ctx, conn.Conn(), pg.NameOf(name))
	if err != nil {
		return stateError("look for the table of progress "+name, err)
	}
	s.places.Store(name, full.Sanitize())
	return nil
}

// progressColumns are the columns of a table of progress.
var progressColumns = []string{"topic", "publisher", "last_position", "last_published_at", "status", "error_count", "last_error", "updated_at",
	"leader_instance", "leader_since", "leader_heartbeat"}

func (s *Store) checkProgress(ctx context.Context, t *progressTable) error {
	columns, err := pg.TableColumns(ctx, s.pool, t.name)
	if pg.FailedWith(err, pg.UndefinedTable, pg.InvalidSchema) {
		return fmt.Errorf("state store: there is no table %s of progress in its database; create it as the original does, or correct progress_table", t.name)
	}
	if err != nil {
		return stateError("check the table of progress "+t.name, err)
	}
	for _, name := range progressColumns {
		if _, ok := columns[name]; !ok {
			return fmt.Errorf("state store: table %s has no column %s, so it is not a table of progress; correct progress_table", t.name, name)
		}
	}
	var role string
	var lacking []string
	const sql = `SELECT current_user, array_remove(ARRAY[
    CASE WHEN NOT has_table_privilege($1, 'SELECT') THEN 'SELECT' END, CASE WHEN NOT has_table_privilege($1, 'INSERT') THEN 'INSERT' END,
    CASE WHEN NOT has_table_privilege($1, 'UPDATE') THEN 'UPDATE' END], NULL),
    coalesce(has_table_privilege(to_regclass('outrider_pause')::oid, 'DELETE'), true)`
	var resumes bool
	if err := s.pool.QueryRow(ctx, sql, t.name).Scan(&role, &lacking, &resumes); err != nil {
		return stateError("check the table of progress "+t.name, err)
	}
	if !resumes {
		return fmt.Errorf("state store: role %s may not resume a route whose row says so: %s", role,
			ProgressGrants(s.pool.schema.name, t.name)[2:3].Fix(pgx.Identifier{role}.Sanitize()))
	}
	if len(lacking) > 0 {
		return fmt.Errorf("state store: role %s may not keep the table of progress: GRANT %s ON %s TO %s", role, strings.Join(lacking, ", "), t.name, pgx.Identifier{role}.Sanitize())
	}
	return nil
}
