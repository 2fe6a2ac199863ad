package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/database"

	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// version is that of the state tables; 0: there are none.
func (s *Store) version(ctx context.Context) (version int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM outrider_migrations WHERE is_applied`).Scan(&version)
	if pg.FailedWith(err, pg.UndefinedTable, pg.InvalidSchema) {
		return 0, nil
	}
	return version, err
}

// warnOfOthers says that the tables are created again although another schema has some:
// who meant to move them would have all routes start again.
func (s *Store) warnOfOthers(ctx context.Context) {
	const q = `SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'outrider_cursor' AND n.nspname <> $1 ORDER BY 1`
	rows, err := s.pool.Pool.Query(ctx, q, s.pool.schema.name)
	if err != nil {
		return // what follows meets it, too
	}
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(others) > 0 {
		s.log.WarnContext(ctx, "the database has state tables in another schema; new ones are created, in which every route begins as its start says. "+
			"To keep its progress instead, stop the relays, drop the new tables and move the others: ALTER TABLE ... SET SCHEMA ...",
			"schema", s.pool.schema.name, "others", others)
	}
}

// mayNotMigrate is the error for a role that may not create or upgrade the tables:
// by whom it can be done, and what this role needs afterwards.
func (s *Store) mayNotMigrate(ctx context.Context, cause error) error {
	const q = `
SELECT current_user, current_database(), pg_get_userbyid(d.datdba), pg_get_userbyid(n.nspowner), pg_get_userbyid(c.relowner)
FROM pg_database d LEFT JOIN pg_namespace n ON n.nspname = $1
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'outrider_cursor'
WHERE d.datname = current_database()`
	schema := s.pool.schema.name
	var role, name, owner string
	var schemaOwner, tableOwner *string
	if err := s.pool.Pool.QueryRow(ctx, q, schema).Scan(&role, &name, &owner, &schemaOwner, &tableOwner); err != nil {
		return cause
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	var what, by string
	switch {
	case schemaOwner == nil:
		what, by = "there is no schema "+quoted, fmt.Sprintf("role %s, which owns database %s, or another that may CREATE in it", owner, name)
	case tableOwner == nil:
		what, by = "there are no state tables in schema "+quoted, fmt.Sprintf("role %s, which owns the schema, or another with CREATE and USAGE on it", *schemaOwner)
	default:
		what, by = "the state tables in schema "+quoted+" are of another version than this program's", fmt.Sprintf("role %s, which owns them", *tableOwner)
	}
	return fmt.Errorf("%s, and role %s may not change that (%w): run `outrider init` as %s; `outrider init --print` shows the statements, and the grants that role %s needs",
		what, role, cause, by, role)
}

// InitSQL returns the statements that create the state tables, or bring them up
// to date: those for each version, in order, and what says that it was reached. For
// the grants see [Grants]. Empty: in the first schema of the search path.
func InitSQL(schema string) (string, error) {
	s := newStateSchema(schema)
	var b strings.Builder
	if schema != "" {
		fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n\n", pgx.Identifier{schema}.Sanitize())
	}
	var made statementsOnly
	applied, err := s.versions()
	if err == nil {
		err = applied.CreateVersionTable(context.Background(), &made)
	}
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "%s;\n%s", made, state.Reached(applied.Tablename(), 0))
	err = state.PrintVersions(&b, stateMigrations, applied.Tablename(), func(up string) string { return strings.TrimSpace(s.write(up)) })
	return b.String(), err
}

// statementsOnly keeps the statements that goose would run.
type statementsOnly string

var _ database.DBTxConn = (*statementsOnly)(nil)

// ExecContext keeps a statement.
func (s *statementsOnly) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	*s += statementsOnly(strings.ReplaceAll(query, "\n\t", "\n"))
	return nil, nil //nolint:nilnil // goose takes the error only
}

var errNoQuery = errors.New("there is no database to ask")

// QueryContext fails.
func (*statementsOnly) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errNoQuery
}

// QueryRowContext returns no row.
func (*statementsOnly) QueryRowContext(context.Context, string, ...any) *sql.Row { return new(sql.Row) }
