package pg

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// others reports whether a session a is a program's and none of Outrider's: those have names of their
	// own, or the one that the configuration gives them.
	others = `(a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.application_name NOT LIKE 'outrider-%'
       AND NOT (a.application_name = current_setting('application_name') AND a.usename = current_user))`

	// transactionID names the transaction of a session a. The server uses process ids again, and a session
	// has one transaction after another; the times are those of the server's clock in microseconds.
	transactionID = `(a.pid || '-' || (extract(epoch FROM a.backend_start) * 1000000)::bigint || '-' || (extract(epoch FROM a.xact_start) * 1000000)::bigint)`

	transactionsSQL = `
SELECT ` + transactionID + `, a.pid, a.application_name, coalesce(a.usename, ''), coalesce(host(a.client_addr), ''),
       coalesce(a.state, ''), left(a.query, 2000), a.xact_start, extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.xact_start < clock_timestamp() - make_interval(secs => $1) AND ` + others + `
ORDER BY a.xact_start LIMIT 20`

	// endTransactionSQL compares and ends in one statement, and waits for the end for up to 5 seconds.
	endTransactionSQL = `
SELECT pg_terminate_backend(a.pid, 5000), current_user FROM pg_stat_activity a
WHERE a.datname = current_database() AND ` + transactionID + ` = $1 AND ` + others

	// statementMost is how much of a statement is shown.
	statementMost = 200
)

// literals are the quoted values of a statement, also one that was cut within a value. A value quoted by dollars
// may have other such values in it: all that follows counts.
var literals = regexp.MustCompile(`(?is)\bE'(?:[^'\\]|\\.)*(?:'|$)|'[^']*(?:'|$)|\$(?:[A-Za-z_]\w*)?\$.*`)

// Transactions implements [adapters.TransactionLister] for a database. Sources and queues embed it.
type Transactions struct{ Pool *pgxpool.Pool }

// ExamineOpen implements [adapters.TransactionLister].
func (t Transactions) ExamineOpen(ctx context.Context) []adapters.Finding {
	return ExamineOpen(ctx, t.Pool)
}

// OpenTransactions implements [adapters.TransactionLister].
func (t Transactions) OpenTransactions(ctx context.Context) ([]adapters.OpenTransaction, error) {
	return OpenTransactions(ctx, t.Pool)
}

// EndTransaction implements [adapters.TransactionLister].
func (t Transactions) EndTransaction(ctx context.Context, id string) (bool, error) {
	return EndTransaction(ctx, t.Pool, id)
}

// OpenTransactions implements the method of [adapters.TransactionLister].
func OpenTransactions(ctx context.Context, pool *pgxpool.Pool) ([]adapters.OpenTransaction, error) {
	rows, err := pool.Query(ctx, transactionsSQL, longOpen.Seconds())
	if err != nil {
		return nil, Describe("transactions", "list those that have been open for long", err, noFix)
	}
	var out []adapters.OpenTransaction
	var t adapters.OpenTransaction
	var seconds int64
	_, err = pgx.ForEachRow(rows, []any{&t.ID, &t.Process, &t.Application, &t.User, &t.Client, &t.State, &t.Statement, &t.Since, &seconds}, func() error {
		t.Statement, t.Open = masked(t.Statement), time.Duration(seconds)*time.Second
		out = append(out, t)
		return nil
	})
	return out, Describe("transactions", "list those that have been open for long", err, noFix)
}

func noFix(*pgconn.PgError) string { return "" }

// masked is the begin of a statement as one line, without the values in it.
func masked(statement string) string {
	line := []rune(strings.Join(strings.Fields(literals.ReplaceAllString(statement, "'***'")), " "))
	if len(line) > statementMost {
		return string(line[:statementMost]) + "…"
	}
	return string(line)
}

// EndTransaction implements the method of [adapters.TransactionLister].
func EndTransaction(ctx context.Context, pool *pgxpool.Pool, id string) (bool, error) {
	var ended bool
	var role string
	err := pool.QueryRow(ctx, endTransactionSQL, id).Scan(&ended, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, Describe("transactions", "end one", err, func(refused *pgconn.PgError) string {
			process, _, _ := strings.Cut(id, "-")
			if text := strings.ToLower(refused.Message + refused.Detail); strings.Contains(text, "superuser") {
				return "; its role is a superuser: have a superuser run SELECT pg_terminate_backend(" + process + ")"
			}
			return "; GRANT pg_signal_backend TO the role that Outrider connects as"
		})
	case !ended:
		return false, errors.New("the server was told to end the session and had not done so after 5 seconds; see whether it is still there")
	}
	return true, nil
}
