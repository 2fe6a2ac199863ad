package river

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldestVersion is the migration of River since which jobs are unique by an index: v0.12.
const oldestVersion = 6

// Check implements [adapters.Checker]: River's tables exist, are of a version that this program knows how to write, and may be
// written to.
func (d *Destination) Check(ctx context.Context) error {
	jobs := pgx.Identifier{d.cfg.Schema, "river_job"}.Sanitize()
	var table *string
	var may *bool
	err := d.cfg.Pool.QueryRow(ctx, `SELECT to_regclass($1)::text, has_table_privilege(to_regclass($1), 'INSERT')`, jobs).Scan(&table, &may)
	switch {
	case err != nil:
		return fmt.Errorf("river: look for %s: %w", jobs, err)
	case table == nil:
		return fmt.Errorf("river: the table %s is missing: run River's migrations (river migrate-up --database-url ...), or set schema", jobs)
	case may == nil || !*may:
		return fmt.Errorf("river: the role may not insert jobs: GRANT SELECT, INSERT, UPDATE ON %s, and USAGE ON its sequence, to it", jobs)
	}
	migrations := pgx.Identifier{d.cfg.Schema, "river_migration"}.Sanitize()
	var version *int
	err = d.cfg.Pool.QueryRow(ctx, `SELECT max(version) FROM `+migrations+` WHERE line = 'main'`).Scan(&version)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("river: read the version of River's tables from %s: %w", migrations, err)
	case version == nil || *version < oldestVersion:
		return fmt.Errorf("river: River's tables have version %d, and %d is needed: run River's migrations (river migrate-up --database-url ...)", deref(version), oldestVersion)
	}
	return nil
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
