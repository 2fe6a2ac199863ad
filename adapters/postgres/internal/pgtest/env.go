package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"

	"github.com/outriderhq/outrider/adapters"
)

// Env is a database of its own.
type Env struct {
	T    testing.TB
	Ctx  context.Context
	URL  string
	Pool *pgxpool.Pool // for the test's own statements
}

// New makes a database and a pool of connections to it.
func New(t testing.TB) *Env {
	t.Helper()
	ctx := context.Background()
	e := &Env{T: t, Ctx: ctx, URL: testenv.Postgres(t)}
	cfg, err := pgxpool.ParseConfig(e.URL)
	Must(t, err)
	cfg.MaxConns = 20
	e.Pool, err = pgxpool.NewWithConfig(ctx, cfg)
	Must(t, err)
	t.Cleanup(e.Pool.Close)
	return e
}

// Exec runs one statement of the test's.
func (e *Env) Exec(sql string, args ...any) {
	e.T.Helper()
	_, err := e.Pool.Exec(e.Ctx, sql, args...)
	Must(e.T, err)
}

// Begin opens a transaction that has its id, and rolls it back at the end if
// the test has not ended it.
func (e *Env) Begin() pgx.Tx {
	e.T.Helper()
	tx, err := e.Pool.Begin(e.Ctx)
	Must(e.T, err)
	e.T.Cleanup(func() { _ = tx.Rollback(e.Ctx) })
	_, err = tx.Exec(e.Ctx, "SELECT pg_current_xact_id()")
	Must(e.T, err)
	return tx
}

// Role makes a role that can log in and may do nothing, and returns its name
// and the URL to connect as it.
func (e *Env) Role() (name, as string) {
	e.T.Helper()
	name = "reader_" + strings.ToLower(rand.Text())
	e.Exec("CREATE ROLE " + name + " LOGIN")
	e.T.Cleanup(func() {
		e.Exec("DROP OWNED BY " + name)
		e.Exec("DROP ROLE " + name)
	})
	u, err := url.Parse(e.URL)
	Must(e.T, err)
	u.User = url.User(name)
	return name, u.String()
}

// Vacuum removes the dead rows of a table and all of their index entries. VACUUM leaves what a snapshot of any session may still see, and claims
// walk over it. That is not only sessions of the same database: one that waits to be let into a database which another test creates or drops
// is of none yet, and has a snapshot all that time. So this waits until a row that died after those of the table goes.
func Vacuum(t testing.TB, pool *pgxpool.Pool, table string) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		Must(t, err)
	}
	probe := "probe_" + strings.ToLower(rand.Text())
	exec("CREATE TABLE " + probe + " AS SELECT 1 AS n")
	exec("DELETE FROM " + probe)
	for size := 1; size > 0; time.Sleep(time.Millisecond) {
		exec("VACUUM " + probe) // cuts off the empty page
		Must(t, pool.QueryRow(t.Context(), "SELECT pg_relation_size($1)", probe).Scan(&size))
	}
	exec("DROP TABLE " + probe)
	exec("VACUUM " + table)
}

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantError checks that an error says all of some things.
func WantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// Payloads returns the texts of rows in their order.
func Payloads(rows []*adapters.Row) []string {
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = string(r.Payload[1 : len(r.Payload)-1])
	}
	return texts
}

// WantPayloads checks the texts of rows, in order.
func WantPayloads(t *testing.T, rows []*adapters.Row, want ...string) {
	t.Helper()
	if got := Payloads(rows); !slices.Equal(got, want) {
		t.Fatalf("read %q, want %q", got, want)
	}
}

// WithPath adds a search path to a URL.
func WithPath(t *testing.T, address, path string) string {
	t.Helper()
	u, err := url.Parse(address)
	Must(t, err)
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}
