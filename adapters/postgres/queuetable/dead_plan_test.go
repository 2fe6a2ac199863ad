package queuetable

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

// rowsOf inserts rows with a status: keys begin with prefix, and all are of one group in ten.
func (e *queueEnv) rowsOf(prefix, status string, rows int) {
	e.t.Helper()
	attempts, none := ", {set_attempts}", ", 0"
	if e.layout.Columns.Attempts == "" {
		attempts, none = "", ""
	}
	e.each(`INSERT INTO {t} ({set_key}, {set_type}, `+pg.QuoteName(e.layout.Columns.Group)+`, {set_payload}, {set_status}, {set_created}`+attempts+`)
SELECT $1 || lpad(i::text, 9, '0'), 'EVENT', $1 || i % 10, '{"type":"t"}', `+pg.Literal(status)+`, timestamptz '2026-01-01' + i * interval '1 ms'`+none+`
FROM generate_series(1, $2::int) i`, prefix, rows)
}

// operators runs what `status`, `parked list` and the dashboard ask, and returns the buffers of each question.
func (e *queueEnv) operators(q *Queue, seen *recorder) map[string]int {
	e.t.Helper()
	page, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 100})
	pgtest.Must(e.t, err)
	if len(page) != 100 {
		e.t.Fatalf("a page of %d dead rows", len(page))
	}
	buffers := map[string]int{}
	for name, ask := range map[string]func() error{
		"a page of dead rows":  func() error { _, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 100}); return err },
		"a page with payloads": func() error { _, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 100, Payload: true}); return err },
		"the page behind it":   func() error { _, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 100, After: page[99].At}); return err },
		"a dead row by its id": func() error { _, err := q.Dead(e.ctx, adapters.DeadFilter{ID: page[0].Row.ID}); return err },
		"how many are dead":    func() error { _, _, err := q.CountDead(e.ctx, 10_000, false); return err },
		"how many are waiting": func() error { _, err := q.Unfinished(e.ctx, 10_000); return err },
		"where an event is":    func() error { _, err := q.Find(e.ctx, page[0].Row.ID, 10); return err },
		"dead rows of one group": func() error {
			_, err := q.Dead(e.ctx, adapters.DeadFilter{Limit: 100, Group: page[0].Row.Group})
			return err
		},
	} {
		seen.statements = nil
		pgtest.Must(e.t, ask())
		for _, s := range slices.Clone(seen.statements) {
			if strings.Contains(s.sql, "FROM pg_") {
				continue
			}
			var text []byte
			pgtest.Must(e.t, q.pool.QueryRow(e.ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+s.sql, s.args...).Scan(&text))
			var explained []struct {
				Plan pgtest.PlanNode `json:"Plan"`
			}
			pgtest.Must(e.t, json.Unmarshal(text, &explained))
			plan := &explained[0].Plan
			buffers[name] += plan.Hit + plan.Read
			plan.Walk(func(n *pgtest.PlanNode) {
				if n.Type == "Seq Scan" {
					e.t.Errorf("%s: the plan reads the whole table: %s", name, s.sql)
				}
			})
		}
	}
	return buffers
}

// TestG8_DeadRowsAreFlatBesideFinishedOnes: what operators ask about dead rows and about what waits costs what it does in
// a table without finished rows, with statistics from before they came and with fresh ones.
func TestG8_DeadRowsAreFlatBesideFinishedOnes(t *testing.T) {
	t.Parallel()
	const dead, waiting = 2_000, 50
	for name, s := range presetTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).preset(t, s.preset())
			e.tables = e.tables[:1]
			if s.plain != "" {
				e.exec(s.in(e.tables[0].Name, s.plain))
			}
			_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
			pgtest.Must(t, err)
			e.each("ALTER TABLE {t} SET (autovacuum_enabled = off)")
			e.each("ALTER TABLE {t} SET UNLOGGED")
			for i, status := range e.layout.Dead() {
				e.rowsOf("d"+string(rune('a'+i)), status, dead/len(e.layout.Dead()))
			}
			e.rowsOf("w", e.layout.Statuses.Pending, waiting)
			e.each("VACUUM ANALYZE {t}")
			seen := &recorder{}
			q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables, Layout: e.layout, Fence: e.fence, Tracer: seen})
			pgtest.Must(t, err)
			defer func() { pgtest.Must(t, q.Close()) }()
			_, _, err = q.CountDead(e.ctx, 1, false) // describes the table
			pgtest.Must(t, err)
			none := e.operators(q, seen)
			e.rowsOf("o", e.layout.Statuses.Done, testenv.Size(20_000, pgtest.PlanRows))
			stale := e.operators(q, seen)
			e.each("VACUUM ANALYZE {t}")
			fresh := e.operators(q, seen)
			for ask, least := range none {
				if ask == "a dead row by its id" && least > 6 {
					t.Errorf("%s: %d buffers; it depends on how many are dead", ask, least)
				}
				t.Logf("%s: %d buffers without finished rows, %d with, %d with fresh statistics", ask, least, stale[ask], fresh[ask])
				// A deeper index costs a few more.
				if most := least + least/10 + 10; stale[ask] > most || fresh[ask] > most {
					t.Errorf("%s: %d and %d buffers beside finished rows, %d without", ask, stale[ask], fresh[ask], least)
				}
			}
		})
	}
}
