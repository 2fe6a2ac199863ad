package pg

import "github.com/jackc/pgx/v5/pgconn"

// DescribeOwn describes an error of a table in Outrider's own layout.
func DescribeOwn(table, what string, err error) error {
	return Describe("outbox table "+table, what, err, func(e *pgconn.PgError) string { return ownFix(table, e) })
}

// OwnFix returns the fix of such an error.
func OwnFix(table string, err error) string {
	return FixBy(err, func(e *pgconn.PgError) string { return ownFix(table, e) })
}

func ownFix(table string, refused *pgconn.PgError) string {
	switch refused.Code {
	case UndefinedTable, InvalidSchema:
		return `; create it with "outrider init", or correct the table's name or the database in the config`
	case InsufficientPrivilege:
		return "; " + GrantFor(table, refused.Message)
	case UndefinedColumn, UndefinedFunction, DatatypeMismatch:
		return `; the table is not in Outrider's own layout ("outrider init --print" shows it)` +
			" or the server is older than PostgreSQL 13"
	case FeatureNotSupported:
		return "; the table was altered, the next read prepares its statement again"
	}
	return ""
}
