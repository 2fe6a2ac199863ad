package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that have a fix.
const (
	undefinedTable        = "42P01"
	invalidSchema         = "3F000"
	insufficientPrivilege = "42501"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	datatypeMismatch      = "42804"
	featureNotSupported   = "0A000"
	readOnlyTransaction   = "25006"
)

// SQLSTATEs that say that somebody else was at the rows.
const (
	lockNotAvailable     = "55P03"
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
)

// failedWith tells whether the server refused something with one of these SQLSTATEs.
func failedWith(err error, states ...string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(states, pg.Code)
}

// explain says for which table and in doing what the error came up and, where
// one is known, the fix. What PostgreSQL and pgx say names hosts, users and
// objects, never a password: hosts that a badly encoded password could have
// got into were refused by newPool.
func explain(table, what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := notConnected(err); ok {
		return fmt.Errorf("outbox table %s: %w", table, e)
	}
	return fmt.Errorf("outbox table %s: %s: %w%s", table, what, err, fixOf(table, err))
}

// fixOf returns the fix of an error, with what separates it from the error.
func fixOf(table string, err error) string {
	if fix := connectFix(err); fix != "" {
		return fix
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	switch pg.Code {
	case undefinedTable, invalidSchema:
		return `; create it with "outrider init", or correct the table's name or the database in the config`
	case insufficientPrivilege:
		return "; " + grantFor(table, pg.Message)
	case undefinedColumn, undefinedFunction, datatypeMismatch:
		return `; the table is not in Outrider's own layout ("outrider init --print" shows it)` +
			" or the server is older than PostgreSQL 13"
	case featureNotSupported:
		return "; the table was altered, the next read prepares its statement again"
	}
	return ""
}

// connectFix returns the fix of a connection that was not made.
func connectFix(err error) string {
	if e, ok := notConnected(err); ok && e.fix != "" {
		return "; " + e.fix
	}
	return ""
}

// grantFor returns the fix of a missing privilege, judging by the message.
func grantFor(table, message string) string {
	switch {
	case strings.Contains(message, "row-level security"):
		return "row security would hide rows, and they would be lost: ALTER ROLE ... BYPASSRLS for the role that Outrider connects as"
	case strings.Contains(message, "for schema"):
		return "GRANT USAGE (for init: CREATE) ON SCHEMA ... to the role that Outrider connects as"
	case strings.Contains(message, "for sequence"):
		return "GRANT SELECT ON SEQUENCE ... to the role that Outrider connects as"
	case strings.Contains(message, "for function"):
		return "GRANT EXECUTE ON FUNCTION pg_control_system() to the role that Outrider connects as"
	}
	return fmt.Sprintf("GRANT SELECT ON %s to the role that Outrider connects as", table)
}
