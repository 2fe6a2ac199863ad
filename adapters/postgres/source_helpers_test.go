package postgres

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// sourceEnv is an outbox table in a database of its own, and a source on it.
type sourceEnv struct {
	t    testing.TB
	ctx  context.Context
	url  string
	pool *pgxpool.Pool // for the test's own statements
	src  *Source
}

func newSourceEnv(t testing.TB) *sourceEnv {
	t.Helper()
	ctx := context.Background()
	e := &sourceEnv{t: t, ctx: ctx, url: testenv.Postgres(t)}
	cfg, err := pgxpool.ParseConfig(e.url)
	must(t, err)
	cfg.MaxConns = 20
	e.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	must(t, err)
	t.Cleanup(e.pool.Close)
	_, err = Init(ctx, e.pool, "")
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

// exec runs one statement of the test's.
func (e *sourceEnv) exec(sql string, args ...any) {
	e.t.Helper()
	_, err := e.pool.Exec(e.ctx, sql, args...)
	must(e.t, err)
}

// begin opens a transaction that has its id, and rolls it back at the end if
// the test has not ended it.
func (e *sourceEnv) begin() pgx.Tx {
	e.t.Helper()
	tx, err := e.pool.Begin(e.ctx)
	must(e.t, err)
	e.t.Cleanup(func() { _ = tx.Rollback(e.ctx) })
	_, err = tx.Exec(e.ctx, "SELECT pg_current_xact_id()")
	must(e.t, err)
	return tx
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lanes is a reader of all slots: one cursor for each.
type lanes struct {
	src   outbox.Source
	from  [outbox.Slots]outbox.Cursor
	limit int
	ahead func() int64 // how far reads are to come, from the furthest behind; nil: no further than their limits
}

func (e *sourceEnv) lanes(src outbox.Source, kind outbox.StartKind, limit int) *lanes {
	e.t.Helper()
	c, err := src.Start(e.ctx, outbox.Start{Kind: kind})
	must(e.t, err)
	l := &lanes{src: src, limit: limit}
	for i := range l.from {
		l.from[i] = c
	}
	return l
}

// reads asks for all slots; until is nil or has a bound for each.
func (l *lanes) reads(until *[outbox.Slots]outbox.Cursor) []outbox.Read {
	reads := make([]outbox.Read, outbox.Slots)
	reach := int64(0)
	if l.ahead != nil {
		if n := l.ahead(); n > 0 {
			reach = slices.MinFunc(l.from[:], func(a, b outbox.Cursor) int { return cmp.Compare(a.Position, b.Position) }).Position + n
		}
	}
	for i := range reads {
		reads[i] = outbox.Read{Slot: i, From: l.from[i], Limit: l.limit, Reach: reach}
		if until != nil {
			reads[i].Until = &until[i]
		}
	}
	return reads
}

// next fetches once and moves all cursors on. drained: nothing is left anywhere.
func (l *lanes) next(ctx context.Context, until *[outbox.Slots]outbox.Cursor) (rows []*outbox.Row, drained bool, err error) {
	results, err := l.src.Fetch(ctx, l.reads(until), func(_ int, row *outbox.Row) bool {
		rows = append(rows, row)
		return true
	})
	if err != nil {
		return nil, false, err
	}
	drained = true
	for i, r := range results {
		l.from[i] = r.Next
		drained = drained && r.Drained
	}
	return rows, drained, nil
}

// all fetches until nothing is left.
func (l *lanes) all(t testing.TB) (rows []*outbox.Row) {
	t.Helper()
	for {
		more, drained, err := l.next(context.Background(), nil)
		must(t, err)
		rows = append(rows, more...)
		if drained {
			return rows
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
