package pg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
)

// SQLSTATEs that have a fix.
const (
	UndefinedTable        = "42P01"
	InvalidSchema         = "3F000"
	InsufficientPrivilege = "42501"
	UndefinedColumn       = "42703"
	UndefinedFunction     = "42883"
	DatatypeMismatch      = "42804"
	FeatureNotSupported   = "0A000"
	ReadOnlyTransaction   = "25006"
	duplicateStatement    = "42P05"
	invalidStatement      = "26000"
)

// SQLSTATEs of conflicts with another transaction.
const (
	LockNotAvailable     = "55P03"
	DeadlockDetected     = "40P01"
	SerializationFailure = "40001"
)

// FailedWith reports whether the server refused something with one of these SQLSTATEs.
func FailedWith(err error, states ...string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(states, pg.Code)
}

// NoValue reports whether a text cannot be a value of the type that it was cast to: then no row has it.
func NoValue(err error) bool { return FailedWith(err, "22P02", "22003", "22007", "22008", "22023") }

// othersFault are the classes of errors that are not about what a row would become: the connection, the role, the statement, another
// transaction, what the server has room for, and an operator.
var othersFault = []string{"08", "0A", "25", "26", "28", "3D", "3F", "40", "42", "53", "55", "57", "58", "F0", "XX"}

// Refused marks an error of a write by which the table refuses a row.
func Refused(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && len(refused.Code) == 5 && !slices.Contains(othersFault, refused.Code[:2]) {
		return fmt.Errorf("%w: %w", adapters.ErrRefused, err)
	}
	return err
}

// Describe says what failed and, where one is known, the fix. fix returns that of
// an error that the server reported, with what separates it from the error. What
// PostgreSQL and pgx say names hosts, users and objects, never a password: hosts that a
// badly encoded password could have got into were refused by given.
func Describe(subject, what string, err error, fix func(*pgconn.PgError) string) error {
	if err == nil {
		return nil
	}
	if e, ok := NotConnected(err); ok {
		return fmt.Errorf("%s: %w", subject, e)
	}
	return fmt.Errorf("%s: %s: %w%s", subject, what, err, FixBy(err, fix))
}

// FixBy returns the fix of an error, with what separates it from the error.
func FixBy(err error, fix func(*pgconn.PgError) string) string {
	if text := ConnectionFix(err); text != "" {
		return "; " + text
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	if text := fix(refused); text != "" || refused.Code != duplicateStatement && refused.Code != invalidStatement {
		return text
	}
	return "; a pooler in transaction mode is in between that keeps no prepared statements: a relay must connect to the server itself, or to a pool in session mode; " +
		"destinations and commands can add default_query_exec_mode=exec to the url"
}

// GrantFor returns the fix of a missing privilege, judging by the message.
func GrantFor(table, message string) string {
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

// deadlockRetries is how often a transaction is tried that met a deadlock.
const deadlockRetries = 5

// RetryDeadlock runs f again when the server chose it as the victim of a
// deadlock. Writers lock rows in one order, but a plan need not follow it.
func RetryDeadlock(f func() error) error {
	var err error
	for range deadlockRetries {
		if err = f(); !FailedWith(err, DeadlockDetected) {
			return err
		}
	}
	return err
}
