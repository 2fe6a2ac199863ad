package retention_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sourceEnv is an outbox table in a database of its own, and a source on it.
type sourceEnv struct {
	*pgtest.Env
	src *owntable.Source
}

func newSourceEnv(t testing.TB) *sourceEnv {
	t.Helper()
	e := &sourceEnv{Env: pgtest.New(t)}
	_, err := owntable.Init(e.Ctx, e.Pool, "")
	pgtest.Must(t, err)
	e.src = e.source(e.URL)
	return e
}

// source opens another source, which the test closes.
func (e *sourceEnv) source(url string) *owntable.Source {
	e.T.Helper()
	src, err := owntable.New(e.Ctx, owntable.Config{URL: url})
	pgtest.Must(e.T, err)
	e.T.Cleanup(func() { pgtest.Must(e.T, src.Close()) })
	return src
}

// insert publishes one row with a text as its payload.
func insert(t testing.TB, q interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, group, payload string) {
	t.Helper()
	_, err := q.Exec(context.Background(),
		`INSERT INTO outrider_outbox (type, message_group, payload) VALUES ('t', $1, to_json($2::text))`, group, payload)
	pgtest.Must(t, err)
}
