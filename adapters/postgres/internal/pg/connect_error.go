package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs of a server that does not let a connection in.
const (
	invalidAuthorization = "28000"
	invalidPassword      = "28P01"
	unknownDatabase      = "3D000"
	tooManyConnections   = "53300"
	cannotConnectNow     = "57P03"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	connectionFailure    = "08006"
	notInThatState       = "55000"
	undefinedObject      = "42704"
)

// Lost reports whether a connection ended early: the server ends, has just begun, or was not heard of any more.
func Lost(err error) bool {
	return errors.Is(err, pgconn.ErrConnClosed) || FailedWith(err, adminShutdown, crashShutdown, cannotConnectNow, connectionFailure)
}

// ConnectFailure is a connection that was not made, in the words of its decisive
// attempt. pgx lists every attempt: both with and without TLS, for each address of
// each host.
type ConnectFailure struct {
	Text, fix string
	err       error // what pgx said
}

// Error is what happened and, behind a semicolon, what to do.
func (e *ConnectFailure) Error() string {
	if e.fix == "" {
		return e.Text
	}
	return e.Text + "; " + e.fix
}

// Unwrap returns what pgx said.
func (e *ConnectFailure) Unwrap() error { return e.err }

// NotConnected returns the decisive attempt of an error about a connection that was
// not made.
func NotConnected(err error) (*ConnectFailure, bool) {
	if e, done := errors.AsType[*ConnectFailure](err); done {
		return e, true
	}
	all, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return nil, false
	}
	text, fix := decisive(attempts(all), all.Config)
	return &ConnectFailure{text, fix, err}, true
}

// Plainly returns the decisive attempt in place of an error about a connection that
// was not made, and any other error as it is.
func Plainly(err error) error {
	if e, ok := NotConnected(err); ok {
		return e
	}
	return err
}

// withoutFix is the text of an error for a finding, which has its fix apart.
func withoutFix(err error) string {
	if e, ok := NotConnected(err); ok {
		return e.Text
	}
	return err.Error()
}

// attempts lists what became of each attempt, in order.
func attempts(all *pgconn.ConnectError) []error {
	err := all.Unwrap()
	if e, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return e.Unwrap()
	}
	return []error{err}
}

// ConnectionFix is what to do about a connection that was not made; empty for any other
// error.
func ConnectionFix(err error) string {
	if e, ok := NotConnected(err); ok {
		return e.fix
	}
	return ""
}

// decisive returns the attempt that came farthest, with its fix: an answer of the server
// says more than a refused TLS handshake, and that more than an address where
// nothing listens.
func decisive(tried []error, cfg *pgconn.Config) (text, fix string) {
	best := -1
	for _, err := range tried {
		if rank, t, f := attempt(err, cfg); rank > best {
			best, text, fix = rank, t, f
		}
	}
	return text, fix
}

// attemptText matches the text of an attempt by pgx: address, host as given, what happened.
var attemptText = regexp.MustCompile(`(?s)^(\S+) \((\S*)\): (.*)$`)

// attempt says what became of one attempt, how far it came and what to do.
func attempt(err error, cfg *pgconn.Config) (rank int, text, fix string) {
	where, what := "", err.Error()
	if m := attemptText.FindStringSubmatch(what); m != nil {
		where, what = m[1], m[3]
		if _, port, splitErr := net.SplitHostPort(m[1]); splitErr == nil && m[2] != "" {
			where = net.JoinHostPort(m[2], port)
		}
	}
	to := "cannot connect to PostgreSQL at " + where + ": "
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return 5, refusal(where, refused, cfg), admission(refused, cfg)
	}
	if fix := tlsFix(err); fix != "" {
		return 4, to + what, fix
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return 1, fmt.Sprintf("cannot connect to PostgreSQL: the host %q cannot be found (%s)", dns.Name, dns.Err),
			"correct the host in the url, or see whether this machine's DNS knows it"
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return 0, to + "it was called off", ""
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return 2, to + "no answer in time", "check host and port of the url, whether the server runs, and firewalls in between"
	case strings.Contains(what, "connection refused"):
		return 2, to + "connection refused", "start the server, or correct host and port of the url"
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		return 3, to + "it takes no writes, and the url asks for a server that does", "wait for a failover to end, or name the primary in the url"
	case where == "":
		return 1, "cannot connect to PostgreSQL: " + what, "check the url"
	}
	return 3, to + strings.TrimPrefix(what, "dial error: "), "check host, port and TLS of the url, and the server's log"
}

// refusal says that the server does not let us in.
func refusal(where string, refused *pgconn.PgError, cfg *pgconn.Config) string {
	return fmt.Sprintf("PostgreSQL at %s does not let user %q into database %q: %s", where, cfg.User, databaseOf(cfg), refused.Message)
}

// databaseOf is the database that was asked for; without one in the url it has the user's name.
func databaseOf(cfg *pgconn.Config) string { return cmp.Or(cfg.Database, cfg.User) }

// moreConnections is what to do about a limit of connections: of the role, of the database or of the server.
func moreConnections(message string, cfg *pgconn.Config) string {
	const end = "end connections that are not needed (SELECT * FROM pg_stat_activity), or "
	switch {
	case strings.Contains(message, "for role"):
		return end + fmt.Sprintf("allow this role more: ALTER ROLE %s CONNECTION LIMIT -1", QuoteName(cfg.User))
	case strings.Contains(message, "for database"):
		return end + fmt.Sprintf("allow this database more: ALTER DATABASE %s CONNECTION LIMIT -1", QuoteName(databaseOf(cfg)))
	}
	return end + "raise max_connections of the server, which takes a restart"
}

// admission is what to do when the server does not let us in.
func admission(refused *pgconn.PgError, cfg *pgconn.Config) string {
	switch refused.Code {
	case invalidPassword:
		return "correct user or password of the url"
	case unknownDatabase:
		return "correct the database of the url, or create it: CREATE DATABASE " + QuoteName(databaseOf(cfg))
	case invalidAuthorization:
		if strings.Contains(refused.Message, "does not exist") {
			return fmt.Sprintf("correct the user of the url, or create it: CREATE ROLE %s LOGIN", QuoteName(cfg.User))
		}
		return "let this user and host in with a line in the server's pg_hba.conf, with TLS or without as the url has it, and reload it"
	case InsufficientPrivilege:
		return fmt.Sprintf("allow it: GRANT CONNECT ON DATABASE %s TO %s", QuoteName(databaseOf(cfg)), QuoteName(cfg.User))
	case tooManyConnections:
		return moreConnections(refused.Message, cfg)
	case undefinedObject: // what is after the question mark is set as parameters of the session
		return "correct the parameters of the url, which follow its question mark"
	case notInThatState:
		if strings.Contains(refused.Message, "accepting connections") {
			return fmt.Sprintf("let connections in: ALTER DATABASE %s ALLOW_CONNECTIONS true", QuoteName(databaseOf(cfg)))
		}
	case cannotConnectNow:
		return "wait until the server has started, or see its log"
	}
	return "see the server's log"
}
