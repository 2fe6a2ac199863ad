package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/outriderhq/outrider"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// tables is a database with an outbox and the state of the relay, and another database. Both have a table copy; in the other
// database its event ids are unique.
type tables struct {
	t           *testing.T
	url, away   string
	here, there *pgxpool.Pool
	log         logged
}

func newTables(t *testing.T) *tables {
	t.Helper()
	w := &tables{t: t, url: testenv.Postgres(t), away: testenv.Postgres(t)}
	for url, pool := range map[string]**pgxpool.Pool{w.url: &w.here, w.away: &w.there} {
		var err error
		*pool, err = pgxpool.New(t.Context(), url)
		must(t, err)
		t.Cleanup((*pool).Close)
		_, err = owntable.Init(t.Context(), *pool, "copy")
		must(t, err)
	}
	_, err := w.there.Exec(t.Context(), "CREATE UNIQUE INDEX ON copy (id)")
	must(t, err)
	return w
}

// run runs a relay by a configuration until stop is called.
func (t *tables) run(text string) (stop func()) {
	t.t.Helper()
	cfg, err := outrider.ParseConfig("test", []byte(text))
	must(t.t, err)
	_, err = operate.Init(t.t.Context(), cfg)
	must(t.t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.NewTextHandler(&t.log, nil))))
	must(t.t, err)
	ctx, cancel := context.WithCancel(t.t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.t.Error(err)
		}
		if t.t.Failed() {
			t.t.Log(t.log.all())
		}
	})
}

// stored is a row of Outrider's own table.
type stored struct {
	ID, Type, Group, Payload, Headers, Occurred string
}

func (t *tables) rows(pool *pgxpool.Pool, table string) []stored {
	t.t.Helper()
	rows, err := pool.Query(t.t.Context(), fmt.Sprintf(`SELECT id, type, coalesce(message_group, ''), payload::text, coalesce(headers::text, ''), coalesce(occurred_at::text, '')
		FROM %s ORDER BY position`, table))
	must(t.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	must(t.t, err)
	return out
}

func (t *tables) count(pool *pgxpool.Pool, sql string) (n int) {
	t.t.Helper()
	must(t.t, pool.QueryRow(t.t.Context(), sql).Scan(&n))
	return n
}

// publish writes messages into the outbox of the first database, whose ids are made by a function of their number.
func (t *tables) publish(from, to int, id func(int) string) {
	t.t.Helper()
	client, err := outbox.NewClient(outbox.ClientConfig{})
	must(t.t, err)
	var all []outbox.Envelope
	for i := from; i < to; i++ {
		group := fmt.Sprint("g", i%7)
		e, err := outbox.New("order.created").ID(id(i)).Group("Order:"+group).Aggregate("Order", group).Header("n", strconv.Itoa(i)).
			RawJSON(fmt.Appendf(nil, `{"type": "order.created",  "n": %d}`, i)).Build()
		must(t.t, err)
		all = append(all, e)
	}
	must(t.t, pgx.BeginFunc(t.t.Context(), t.here, func(tx pgx.Tx) error { return client.Publish(t.t.Context(), tx, all...) }))
}

// TestG1_EachMessageBecomesOneRowOfAnotherTable has connections cut. In the same database each message becomes exactly one
// row of a table whose ids are not unique; in another one it does because they are.
func TestG1_EachMessageBecomesOneRowOfAnotherTable(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	stop := w.run(fmt.Sprintf(`
sources: {app: {type: postgres, url: %q, poll: {max: 20ms}}}
destinations:
  here: {type: sql, url: %q, table: copy, batch: {max_messages: 50}}
  there: {type: sql, url: %q, table: copy, batch: {max_messages: 50}}
routes: {work: {from: app, to: [here, there]}}
`, w.url, w.url, w.away))
	defer stop()
	const all = 1000
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; n < all; n += 10 {
			w.publish(n, n+10, func(i int) string { return fmt.Sprintf("%06d", i) })
		}
	})
	for pool, application := range map[*pgxpool.Pool]string{w.here: "outrider-state", w.there: "outrider%"} {
		eventually(t, "there are rows", func() bool { return w.count(pool, `SELECT count(*) FROM copy`) > 0 })
		for range 10 {
			_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name LIKE $1 AND state <> 'idle' ORDER BY random() LIMIT 1`, application)
			must(t, err)
		}
	}
	wg.Wait()
	for _, pool := range []*pgxpool.Pool{w.here, w.there} {
		eventually(t, "all are rows", func() bool { return w.count(pool, `SELECT count(*) FROM copy`) >= all })
	}
	stop()
	want := w.rows(w.here, "outrider_outbox")
	for name, pool := range map[string]*pgxpool.Pool{"the same database": w.here, "another database": w.there} {
		got := map[string]stored{}
		last := map[string]string{}
		for _, row := range w.rows(pool, "copy") {
			if _, twice := got[row.ID]; twice {
				t.Errorf("%s: two rows of %s", name, row.ID)
			}
			if last[row.Group] >= row.ID {
				t.Errorf("%s: group %s: %s is behind %s", name, row.Group, row.ID, last[row.Group])
			}
			got[row.ID], last[row.Group] = row, row.ID
		}
		for _, row := range want {
			if got[row.ID] != row {
				t.Errorf("%s: the row is %v, want %v", name, got[row.ID], row)
			}
		}
	}
	if n := w.count(w.here, "SELECT count(*) FROM outrider_parked"); n != 0 {
		t.Errorf("%d messages are parked, want none: no failure was a message's", n)
	}
}

// TestMessagesMoveFromOneLayoutToAnother takes messages from Outrider's own table through a table of each layout into the own
// table of another database, and compares what came with what was published.
func TestMessagesMoveFromOneLayoutToAnother(t *testing.T) {
	t.Parallel()
	uuid := func(i int) string { return fmt.Sprintf("0190b9f2-7c7c-7000-8000-%012d", i) }
	short := func(i int) string { return fmt.Sprintf("0HZXEQ5Y8%04d", i) }
	for name, keeps := range map[string]struct {
		id                      func(int) string
		numbered                bool   // the table numbers its rows itself
		headers, time, reformat bool   // reformat: the payload's text is not kept
		group                   string // in front of the group
		aggregate               bool   // the group is the aggregate's id
	}{
		"watermill":        {id: uuid, headers: true, time: true},
		"outbox-framework": {id: uuid, headers: true, time: true},
		"open-outbox":      {id: uuid, headers: true},
		"talkie":           {id: uuid, numbered: true, reformat: true},
		"yantra":           {id: uuid, reformat: true, aggregate: true},
		"flowcatalyst":     {id: short, group: "EVENT:"},
		"flowcatalyst-v2":  {id: short},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTables(t)
			extra := ""
			if layout.Find(name).Log != nil {
				extra = ", topic: orders"
				for _, q := range (wmsql.DefaultPostgreSQLSchema{}).SchemaInitializingQueries("orders") {
					_, err := w.here.Exec(t.Context(), q.Query)
					must(t, err)
				}
				_, err := w.here.Exec(t.Context(), `CREATE UNIQUE INDEX ON watermill_orders ("offset")`)
				must(t, err)
			}
			stop := w.run(fmt.Sprintf(`
sources:
  app: {type: postgres, url: %q, poll: {max: 20ms}}
  mid: {type: postgres, url: %q, layout: %s, poll: {min: 20ms, max: 20ms}%s}
destinations:
  mid: {type: sql, url: %q, layout: %s%s}
  back: {type: sql, url: %q, table: copy}
routes:
  there: {from: app, to: mid}
  back: {from: mid, to: back}
`, w.url, w.url, name, extra, w.url, name, extra, w.away))
			defer stop()
			const all = 60
			w.publish(0, all, keeps.id)
			eventually(t, "all have come", func() bool { return w.count(w.there, `SELECT count(*) FROM copy`) >= all })
			stop()
			came, last := map[int]stored{}, map[string]int{}
			for _, row := range w.rows(w.there, "copy") {
				var p event
				must(t, json.Unmarshal([]byte(row.Payload), &p))
				if before, ok := last[row.Group]; ok && before >= p.N {
					t.Errorf("group %s: %d is behind %d", row.Group, p.N, before)
				}
				came[p.N], last[row.Group] = row, p.N
			}
			for n, want := range w.rows(w.here, "outrider_outbox") {
				got := came[n]
				if keeps.numbered {
					want.ID = got.ID
				}
				if !keeps.headers {
					want.Headers = ""
				}
				if !keeps.time {
					want.Occurred = ""
				}
				if keeps.reformat {
					want.Payload = strings.ReplaceAll(want.Payload, ",  ", ", ")
					got.Payload = fmt.Sprintf(`{"type": "order.created", "n": %d}`, n)
				}
				want.Group = keeps.group + want.Group
				if keeps.aggregate {
					want.Group = strings.TrimPrefix(want.Group, "Order:")
				}
				got.Headers = without(t, got.Headers, "X-Event-ID")
				want.Headers = without(t, want.Headers)
				if got != want {
					t.Errorf("message %d came as\n%+v, want\n%+v", n, got, want)
				}
			}
			if len(came) != all {
				t.Errorf("%d messages came, want %d", len(came), all)
			}
		})
	}
}

// without is a JSON object of strings without some keys, its keys in order.
func without(t *testing.T, object string, keys ...string) string {
	t.Helper()
	if object == "" {
		return ""
	}
	var m map[string]string
	must(t, json.Unmarshal([]byte(object), &m))
	maps.DeleteFunc(m, func(key, _ string) bool { return len(keys) > 0 && key == keys[0] })
	text, err := json.Marshal(m)
	must(t, err)
	return string(text)
}
