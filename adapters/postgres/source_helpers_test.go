package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// sourceEnv is an outbox table in a database of its own, and a source on it.
type sourceEnv struct {
	*testEnv
	src *Source
}

func newSourceEnv(t testing.TB) *sourceEnv {
	t.Helper()
	e := &sourceEnv{testEnv: newTestEnv(t)}
	_, err := Init(e.ctx, e.pool, "")
	must(t, err)
	e.src = e.source(e.url, "")
	return e
}

// source opens another source, which the test closes.
func (e *sourceEnv) source(url, table string) *Source {
	e.t.Helper()
	src, err := NewSource(e.ctx, SourceConfig{URL: url, Table: table})
	must(e.t, err)
	e.t.Cleanup(func() { must(e.t, src.Close()) })
	return src
}

// insert publishes one row with a text as its payload.
func insert(t testing.TB, q interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, group, payload string) {
	t.Helper()
	_, err := q.Exec(context.Background(),
		`INSERT INTO outrider_outbox (type, message_group, payload) VALUES ('t', $1, to_json($2::text))`, group, payload)
	must(t, err)
}
