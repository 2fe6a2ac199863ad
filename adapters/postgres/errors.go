package postgres

import (
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// explain describes an error of a table in Outrider's own layout.
func explain(table, what string, err error) error {
	return pg.Describe("outbox table "+table, what, err, func(e *pgconn.PgError) string { return ownFix(table, e) })
}

// fixOf returns the fix of such an error.
func fixOf(table string, err error) string {
	return pg.FixBy(err, func(e *pgconn.PgError) string { return ownFix(table, e) })
}

func ownFix(table string, refused *pgconn.PgError) string {
	switch refused.Code {
	case pg.UndefinedTable, pg.InvalidSchema:
		return `; create it with "outrider init", or correct the table's name or the database in the config`
	case pg.InsufficientPrivilege:
		return "; " + pg.GrantFor(table, refused.Message)
	case pg.UndefinedColumn, pg.UndefinedFunction, pg.DatatypeMismatch:
		return `; the table is not in Outrider's own layout ("outrider init --print" shows it)` +
			" or the server is older than PostgreSQL 13"
	case pg.FeatureNotSupported:
		return "; the table was altered, the next read prepares its statement again"
	}
	return ""
}
