package postgres

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// testEnv is a database of its own.
type testEnv struct {
	t    testing.TB
	ctx  context.Context
	url  string
	pool *pgxpool.Pool // for the test's own statements
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	ctx := context.Background()
	e := &testEnv{t: t, ctx: ctx, url: testenv.Postgres(t)}
	cfg, err := pgxpool.ParseConfig(e.url)
	must(t, err)
	cfg.MaxConns = 20
	e.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	must(t, err)
	t.Cleanup(e.pool.Close)
	return e
}

// exec runs one statement of the test's.
func (e *testEnv) exec(sql string, args ...any) {
	e.t.Helper()
	_, err := e.pool.Exec(e.ctx, sql, args...)
	must(e.t, err)
}

// begin opens a transaction that has its id, and rolls it back at the end if
// the test has not ended it.
func (e *testEnv) begin() pgx.Tx {
	e.t.Helper()
	tx, err := e.pool.Begin(e.ctx)
	must(e.t, err)
	e.t.Cleanup(func() { _ = tx.Rollback(e.ctx) })
	_, err = tx.Exec(e.ctx, "SELECT pg_current_xact_id()")
	must(e.t, err)
	return tx
}

// role makes a role that can log in and may do nothing, and returns its name
// and the URL to connect as it.
func (e *testEnv) role() (name, as string) {
	e.t.Helper()
	name = "reader_" + strings.ToLower(rand.Text())
	e.exec("CREATE ROLE " + name + " LOGIN")
	e.t.Cleanup(func() {
		e.exec("DROP OWNED BY " + name)
		e.exec("DROP ROLE " + name)
	})
	u, err := url.Parse(e.url)
	must(e.t, err)
	u.User = url.User(name)
	return name, u.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks that an error says all of some things.
func wantError(t *testing.T, err error, parts ...string) {
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

// payloads returns the texts of rows in their order.
func payloads(rows []*outbox.Row) []string {
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = string(r.Payload[1 : len(r.Payload)-1])
	}
	return texts
}

func wantPayloads(t *testing.T, rows []*outbox.Row, want ...string) {
	t.Helper()
	if got := payloads(rows); !slices.Equal(got, want) {
		t.Fatalf("read %q, want %q", got, want)
	}
}

// withPath adds a search path to a URL.
func withPath(t *testing.T, address, path string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}
