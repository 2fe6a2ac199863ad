package my

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/adapters"
)

// Numbers of errors that have a meaning here.
const (
	AccessDeniedDB     = 1044 // to a database
	AccessDenied       = 1045 // user or password
	UnknownDatabase    = 1049
	UnknownColumn      = 1054
	keyTooLong         = 1071
	DuplicateColumn    = 1060
	DuplicateIndex     = 1061
	DuplicateEntry     = 1062
	NoSuchIndex        = 1091
	TableDenied        = 1142
	ColumnDenied       = 1143
	NoSuchTable        = 1146
	LockWaitTimeout    = 1205
	Deadlock           = 1213
	PrivilegeDenied    = 1227
	ServerReadOnly     = 1290
	tooManyConnections = 1040
	hostNotAllowed     = 1130
	shutdown           = 1053
	columnTooLong      = 1709
	readOnlySession    = 1792
	readOnlyEngine     = 1836
)

// FailedWith reports whether the server refused something with one of these numbers.
func FailedWith(err error, numbers ...uint16) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(numbers, refused.Number)
}

// Conflict reports whether another transaction was in the way: doing the same again may succeed.
func Conflict(err error) bool { return FailedWith(err, Deadlock, LockWaitTimeout) }

// Answered reports whether an error is the server's answer to a statement. Of a COMMIT that ended with any
// other error it is not known what came of it.
func Answered(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && refused.Number != shutdown
}

// Lost reports whether a connection ended early.
func Lost(err error) bool {
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || FailedWith(err, shutdown)
}

// refusals are numbers of errors by which a table refuses what a row would become, in addition to those of the SQLSTATE's classes 22 and 23.
var refusals = []uint16{1265, 1364, 1366, 1644, 3819}

// Refused marks an error of a write by which the table refuses a row.
func Refused(err error) error {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	if ok && (slices.Contains(refusals, refused.Number) || string(refused.SQLState[:2]) == "22" || string(refused.SQLState[:2]) == "23") {
		return fmt.Errorf("%w: %w", adapters.ErrRefused, err)
	}
	return err
}

// conflictRetries is how often a transaction is tried that met a deadlock or waited for a lock too long.
const conflictRetries = 5

// RetryConflict runs f again while another transaction is in the way.
func RetryConflict(ctx context.Context, f func() error) error {
	var err error
	for range conflictRetries {
		if err = f(); !Conflict(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// Transact runs f in a transaction, and again as a whole while another one is in the way.
func Transact(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	return RetryConflict(ctx, func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback() // the first error says more
			return err
		}
		return tx.Commit()
	})
}

// ConnectFailure is a connection that was not made.
type ConnectFailure struct {
	Text, fix string
	err       error // what the driver said
}

// Error says what happened and, behind a semicolon, what to do.
func (e *ConnectFailure) Error() string {
	if e.fix == "" {
		return e.Text
	}
	return e.Text + "; " + e.fix
}

// Unwrap returns what the driver said.
func (e *ConnectFailure) Unwrap() error { return e.err }

// NotConnected returns what an error says about a connection that was not made.
func NotConnected(err error) (*ConnectFailure, bool) { return errors.AsType[*ConnectFailure](err) }

// ConnectionFix says what to do about a connection that was not made; empty for any other
// error.
func ConnectionFix(err error) string {
	if e, ok := NotConnected(err); ok {
		return e.fix
	}
	return ""
}

// notConnected says why a connection was not made.
func (c *connector) notConnected(err error) error {
	cfg := c.cfg
	to := "cannot connect to MySQL at " + cfg.Addr + ": "
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
		text := fmt.Sprintf("MySQL at %s does not let user %q into database %q: %s", cfg.Addr, cfg.User, cfg.DBName, refused.Message)
		return &ConnectFailure{text, admission(refused, cfg), err}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &ConnectFailure{to + err.Error(), "the server's certificate is checked: name the authority that signed it with `tls: {ca_file: ...}` " +
			"beside the url in the configuration, and the name in it, where it is not the host's, with `server_name`", err}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return &ConnectFailure{fmt.Sprintf("cannot connect to MySQL: the host %q cannot be found (%s)", dns.Name, dns.Err),
			"correct the host in the url, or see whether this machine's DNS knows it", err}
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return &ConnectFailure{to + "it was called off", "", err}
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return &ConnectFailure{to + "no answer in time", "check host and port of the url, whether the server runs, and firewalls in between", err}
	case errors.Is(err, mysql.ErrNoTLS):
		return &ConnectFailure{to + "the server has no TLS, which the connection must have",
			"turn it on there (ssl_cert, ssl_key), or accept an unencrypted connection with `tls: {enabled: false}` beside the url in the configuration", err}
	case strings.Contains(err.Error(), "connection refused"):
		return &ConnectFailure{to + "connection refused", "start the server, or correct host and port of the url", err}
	}
	return &ConnectFailure{to + err.Error(), "check host, port and TLS of the url, and the server's log", err}
}

// admission says what to do when the server does not let us in.
func admission(refused *mysql.MySQLError, cfg *mysql.Config) string {
	switch refused.Number {
	case AccessDenied:
		return "correct user or password of the url, or let this user in from this host: CREATE USER ... IDENTIFIED BY ..."
	case AccessDeniedDB:
		return fmt.Sprintf("correct the database of the url, or allow it: GRANT SELECT, UPDATE ON %s.* TO the user", Quote(cfg.DBName))
	case UnknownDatabase:
		return "correct the database of the url, or create it: CREATE DATABASE " + Quote(cfg.DBName)
	case hostNotAllowed:
		return "let this machine in on the server: CREATE USER 'name'@'host'"
	case tooManyConnections:
		return "close other connections, or raise max_connections on the server"
	}
	return "see the server's log"
}

// Describe says what failed and, where one is known, the fix.
func Describe(subject, what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := NotConnected(err); ok {
		return fmt.Errorf("%s: %w", subject, e)
	}
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) {
		return fmt.Errorf("%s: %s: the connection to MySQL was lost: %w", subject, what, err)
	}
	if fix := fixOf(err); fix != "" {
		return fmt.Errorf("%s: %s: %w; %s", subject, what, err, fix)
	}
	return fmt.Errorf("%s: %s: %w", subject, what, err)
}

// fixOf says what to do about a refusal of the server; empty: nothing is known.
func fixOf(err error) string {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return ""
	}
	switch refused.Number {
	case NoSuchTable:
		return "create it with `outrider init`, or correct its name or the database of the url"
	case TableDenied, ColumnDenied, AccessDeniedDB, PrivilegeDenied:
		return "grant it to the user of the url: `outrider init --print` prints the GRANTs"
	case ServerReadOnly, readOnlySession, readOnlyEngine:
		return "this is a server that cannot be written to, as a replica: name the primary in the url"
	case keyTooLong:
		return "the column of the key is too long for an index beside a group's name: 508 characters of utf8mb4, or 2024 bytes, are the most"
	case columnTooLong:
		return "the table's row format allows no index of a group's name: ALTER TABLE ... ROW_FORMAT = DYNAMIC"
	case LockWaitTimeout:
		return "another transaction holds rows for long: look for one that was left open (SHOW PROCESSLIST)"
	}
	return ""
}

// Quote quotes an identifier.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Literal is a text as a statement of our sessions has it, where a backslash is one.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Table is the name of a table as in SQL: table or database.table, each part quoted by backticks where needed.
type Table struct{ Database, Name string }

// ParseTable reads the name of a table.
func ParseTable(text string) (t Table, err error) {
	var parts []string
	for rest := text; ; {
		var part string
		if quoted, ok := strings.CutPrefix(rest, "`"); ok {
			part, rest, ok = strings.Cut(strings.ReplaceAll(quoted, "``", "\x00"), "`")
			if !ok {
				return t, fmt.Errorf("the table's name %s has a backtick that does not end", text)
			}
			part, rest = strings.ReplaceAll(part, "\x00", "`"), strings.ReplaceAll(rest, "\x00", "``")
		} else {
			i := strings.IndexByte(rest, '.')
			if i < 0 {
				i = len(rest)
			}
			part, rest = rest[:i], rest[i:]
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		after, ok := strings.CutPrefix(rest, ".")
		if !ok {
			return t, fmt.Errorf("the table's name %s cannot be read; write table or database.table", text)
		}
		rest = after
	}
	if len(parts) > 2 || slices.Contains(parts, "") {
		return t, fmt.Errorf("the table's name %s cannot be read; write table or database.table", text)
	}
	t.Name = parts[len(parts)-1]
	if len(parts) == 2 {
		t.Database = parts[0]
	}
	return t, nil
}

// SQL is the name as statements have it.
func (t Table) SQL() string {
	if t.Database == "" {
		return Quote(t.Name)
	}
	return Quote(t.Database) + "." + Quote(t.Name)
}

// In is the database in which the catalogue has the table: a literal, or that of the session.
func (t Table) In() string {
	if t.Database == "" {
		return "database()"
	}
	return Literal(t.Database)
}
