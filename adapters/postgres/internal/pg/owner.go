package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// ExamineOwner warns of a superuser who uses the table of a role that is none: a
// trigger runs with the rights of the role that writes, and the owner makes triggers.
func ExamineOwner(ctx context.Context, pool *pgxpool.Pool, table string) []adapters.Finding {
	const q = `
SELECT r.rolname, current_user FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
WHERE c.oid = to_regclass($1) AND NOT r.rolsuper AND current_setting('is_superuser') = 'on'`
	const subject = "owner"
	var owner, role string
	err := pool.QueryRow(ctx, q, table).Scan(&owner, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return []adapters.Finding{Unknown("table "+table+": "+subject, err)}
	}
	return []adapters.Finding{{Level: adapters.LevelWarning, Subject: "table " + table + ": " + subject,
		Text: fmt.Sprintf("it belongs to role %s, and role %s is a superuser: triggers that %s puts on the table run with all rights when rows are settled, deleted or published",
			pgx.Identifier{owner}.Sanitize(), pgx.Identifier{role}.Sanitize(), pgx.Identifier{owner}.Sanitize()),
		Fix: "connect as a role with the grants that `outrider init --print` shows, and no others"}}
}
