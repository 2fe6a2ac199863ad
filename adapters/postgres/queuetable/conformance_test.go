package queuetable

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

// queueEnv is a database with queue tables.
type queueEnv struct {
	t       testing.TB
	ctx     context.Context
	url     string
	pool    *pgxpool.Pool // for the test's own statements
	schemas *atomic.Int64 // made in the database
	layout  Layout
	tables  []Table
	takeAll bool // every claim is tried without locking first
	fence   Fence

	deletedKept bool // see deleting
}

func newQueueEnv(t testing.TB) *queueEnv {
	t.Helper()
	e := &queueEnv{t: t, ctx: context.Background(), url: testenv.Postgres(t), schemas: &atomic.Int64{}}
	cfg, err := pgxpool.ParseConfig(e.url)
	pgtest.Must(t, err)
	cfg.MaxConns = 30
	e.pool, err = pgxpool.NewWithConfig(e.ctx, cfg)
	pgtest.Must(t, err)
	t.Cleanup(e.pool.Close)
	return e
}

// in is the environment for another test in the same database, with tables of
// its own in a new schema.
func (e *queueEnv) in(t testing.TB, of Layout, tables ...Table) *queueEnv {
	t.Helper()
	inner := *e
	inner.t, inner.layout = t, of
	schema := fmt.Sprintf("s%d", e.schemas.Add(1))
	inner.exec("CREATE SCHEMA " + schema)
	for _, table := range tables {
		inner.tables = append(inner.tables, Table{Name: schema + "." + table.Name, Kind: table.Kind})
	}
	return &inner
}

// flowCatalyst makes FlowCatalyst's tables, with the original's index only or
// with ours as well.
func (e *queueEnv) flowCatalyst(t testing.TB, ours bool) *queueEnv {
	t.Helper()
	e = e.preset(t, layout.FlowCatalyst())
	if ours {
		_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
		pgtest.Must(t, err)
	}
	return e
}

// preset makes the tables of a preset, with the original's indexes only.
func (e *queueEnv) preset(t testing.TB, p *layout.Preset) *queueEnv {
	t.Helper()
	e = e.in(t, *p.Queue, p.Queue.Tables...)
	for _, table := range e.tables {
		name, err := pg.ParseTable(table.Name)
		pgtest.Must(t, err)
		sql := newSQL("", &e.layout)
		for _, s := range sql.create(name) {
			e.exec(s.Create)
		}
	}
	if e.layout.Noted() {
		e.stateTables()
		e.exec("INSERT INTO " + e.fence.of(cursorTable).Sanitize() + " VALUES ('', 0, 0)") // of results that name no lane
	}
	return e
}

// stateTables makes the state store's tables of lanes and notes beside the first table.
func (e *queueEnv) stateTables() {
	e.t.Helper()
	e.fence = Fence{Here: true, Schema: strings.Split(e.tables[0].Name, ".")[0]}
	e.exec(`CREATE TABLE ` + e.fence.of(cursorTable).Sanitize() + ` (route text, slot smallint, epoch bigint NOT NULL, PRIMARY KEY (route, slot))`)
	text, err := os.ReadFile("../statestore/migrations/00010_notes.sql")
	pgtest.Must(e.t, err)
	up, _, _ := strings.Cut(string(text), "-- +goose Down")
	e.exec(strings.Replace(up, "outrider_note", e.fence.of(noteTable).Sanitize(), 1))
}

// customLayout is a mapping of everything that can be mapped.
func customLayout() Layout {
	return Layout{
		Columns: Columns{
			Key: "Event Id", Type: "event_type", Group: "aggregate", Payload: "body", Status: "state", Attempts: "tries",
			NextAttempt: "next_try_at", Created: "created", Claimed: "locked_at", Done: "sent_at", Error: "last_error",
			AggregateType: "kind", AggregateID: "aggregate", Tenant: "tenant", Headers: "headers",
		},
		Statuses: Statuses{Pending: "0", Retrying: "2", Processing: "4", Done: "1", Dead: "3"},
	}
}

func (e *queueEnv) custom(t testing.TB) *queueEnv {
	t.Helper()
	e = e.in(t, customLayout(), Table{Name: `"Out Box"`})
	e.each(`CREATE TABLE {t} ("Event Id" varchar(36) PRIMARY KEY, event_type text NOT NULL, aggregate text, kind text,
    tenant text, headers jsonb, body text NOT NULL, state smallint NOT NULL, tries bigint, next_try_at timestamptz,
    created timestamptz NOT NULL, locked_at timestamptz, sent_at timestamptz, last_error varchar(4000))`)
	e.exec(InitSQL(e.layout, false, e.tables...))
	return e
}

func (e *queueEnv) exec(sql string, args ...any) {
	e.t.Helper()
	_, err := e.pool.Exec(e.ctx, sql, args...)
	pgtest.Must(e.t, err)
}

// queue opens a queue, which the caller closes.
func (e *queueEnv) queue() *Queue {
	e.t.Helper()
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables, Layout: e.layout, Fence: e.fence})
	pgtest.Must(e.t, err)
	if e.takeAll {
		q.takeAllRows, q.takeAllRest = 1, 0
	}
	return q
}

// takingAll makes queues try every claim without locking first.
func (e *queueEnv) takingAll() *queueEnv {
	e.takeAll = true
	return e
}

// column quotes the column of something.
func (e *queueEnv) sql(table, template string) string {
	e.t.Helper()
	name, err := pg.ParseTable(table)
	pgtest.Must(e.t, err)
	q := newSQL(name.Sanitize(), &e.layout)
	if e.layout.Noted() {
		q.notes = e.fence.of(noteTable).Sanitize()
	}
	schema, _, _ := strings.Cut(table, ".")
	return q.fill(template, sqltext.Names{"schema": schema})
}

// each runs a statement for every table.
func (e *queueEnv) each(template string, args ...any) {
	e.t.Helper()
	for _, table := range e.tables {
		e.exec(e.sql(table.Name, template), args...)
	}
}

// statuses maps the suite's statuses to the layout's.
func (e *queueEnv) statuses() map[adaptertest.QueueStatus][]string {
	s := &e.layout.Statuses
	return map[adaptertest.QueueStatus][]string{
		adaptertest.QueueWaiting: s.Waiting(), adaptertest.QueueProcessing: {s.Processing},
		adaptertest.QueueDone: {s.Done}, adaptertest.QueueDead: {s.Dead},
	}
}

func (e *queueEnv) insert(tx pgx.Tx, rows []adaptertest.QueueRow) error {
	batch := &pgx.Batch{}
	attempts, none := ", {set_attempts}", ", 0"
	if e.layout.Noted() {
		attempts, none = "", ""
	}
	for i := range rows {
		r := &rows[i]
		batch.Queue(e.sql(r.Table, `INSERT INTO {t} ({set_key}, {set_type}, `+pg.QuoteName(e.layout.Columns.Group)+`, {set_payload}, {set_status}`+attempts+`, {set_created})
VALUES ($1, $2, nullif($3, ''), $4, `+pg.Literal(e.statuses()[r.Status][0])+none+`, $5)`), r.Key, cmp.Or(r.Type, "EVENT"), r.Group, r.Payload, r.CreatedAt)
	}
	return tx.SendBatch(e.ctx, batch).Close()
}

func (e *queueEnv) harness() adaptertest.QueueHarness {
	h := adaptertest.QueueHarness{
		Queue: e.queue(), Open: func(*testing.T) adapters.OperatorQueue { return e.queue() },
		DefaultGroup: e.layout.DefaultGroup, RetriesOnly: e.layout.DeadKeepsRetries, Timeout: DefaultTimeout,
		Insert: func(t *testing.T, rows ...adaptertest.QueueRow) {
			t.Helper()
			pgtest.Must(t, pgx.BeginFunc(e.ctx, e.pool, func(tx pgx.Tx) error { return e.insert(tx, rows) }))
		},
		Rows: func(t *testing.T) []adaptertest.QueueRow { t.Helper(); return e.rows() },
	}
	for _, table := range e.tables {
		h.Tables = append(h.Tables, table.Name)
		prefix := table.Kind
		if prefix != "" {
			prefix += ":"
		}
		h.Prefixes = append(h.Prefixes, prefix)
	}
	h.InsertLate = func(t *testing.T, rows ...adaptertest.QueueRow) func() {
		t.Helper()
		tx := e.begin(t)
		pgtest.Must(t, e.insert(tx, rows))
		return func() { pgtest.Must(t, tx.Commit(e.ctx)) }
	}
	h.Set = func(t *testing.T, status adaptertest.QueueStatus, since time.Duration, keys ...string) {
		t.Helper()
		claimed := `, {set_claimed} = now() - make_interval(secs => $2)`
		if e.layout.Claimless() {
			claimed = `, {set_created} = {created} + make_interval(secs => 0 * $2)`
		}
		e.each(`UPDATE {t} t SET {set_status} = `+pg.Literal(e.statuses()[status][0])+claimed+`
WHERE {key} = ANY ($1)`, keys, since.Seconds())
	}
	if !e.layout.DoneIsDeleted {
		h.Retaining = func(t *testing.T) adapters.OperatorQueue { return e.retaining(t).queue() }
	}
	h.Refuse = e.refuse
	h.Lock = func(t *testing.T, keys ...string) func() {
		t.Helper()
		tx := e.begin(t)
		_, err := tx.Exec(e.ctx, e.sql(e.tables[0].Name, `SELECT FROM {t} t WHERE {key} = ANY ($1) FOR UPDATE`), keys)
		pgtest.Must(t, err)
		return func() { pgtest.Must(t, tx.Rollback(e.ctx)) }
	}
	if h.Claimless = e.layout.Claimless(); h.Claimless {
		if e.fence.Here {
			h.Own = e.own
		}
		return h
	}
	return h
}

// retaining is the environment with retention, and the index that it needs.
func (e *queueEnv) retaining(t testing.TB) *queueEnv {
	t.Helper()
	inner := *e
	inner.t, inner.layout.OldIsDeleted = t, true
	_, err := Init(e.ctx, e.pool, inner.layout, false, e.tables...)
	pgtest.Must(t, err)
	return &inner
}

// refuse has triggers refuse that a row is done.
func (e *queueEnv) refuse(_ *testing.T, key string) (mend func()) {
	done := "NEW.{set_status}::text = " + pg.Literal(e.layout.Statuses.Done)
	if e.layout.DoneIsDeleted {
		done = "TG_OP = 'DELETE'"
	}
	schema, _, _ := strings.Cut(e.tables[0].Name, ".")
	e.exec("CREATE FUNCTION " + schema + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF OLD." + pg.QuoteName(e.layout.Columns.Key) + "::text = " + pg.Literal(key) +
		" AND " + e.sql(e.tables[0].Name, done) + " THEN RAISE EXCEPTION 'it is frozen'; END IF; RETURN coalesce(NEW, OLD); END$$")
	e.each("CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION " + schema + ".refuse()")
	return func() { e.each("DROP TRIGGER refuse ON {t}") }
}

// claimless makes the outbox framework's table, with the state store's table of lanes beside it.
func (e *queueEnv) claimless(t testing.TB) *queueEnv {
	t.Helper()
	e = e.preset(t, layout.OutboxFramework())
	e.stateTables()
	return e
}

// own raises the epoch of lanes.
func (e *queueEnv) own(t *testing.T, slots ...int) (epoch int64) {
	t.Helper()
	pgtest.Must(t, e.pool.QueryRow(e.ctx, `WITH next AS (SELECT coalesce(max(epoch), 0) + 1 AS epoch FROM `+e.fence.of(cursorTable).Sanitize()+`)
INSERT INTO `+e.fence.of(cursorTable).Sanitize()+` AS c SELECT 'suite', s, next.epoch FROM next, unnest($1::int[]) s
ON CONFLICT (route, slot) DO UPDATE SET epoch = EXCLUDED.epoch RETURNING epoch`, slots).Scan(&epoch))
	return epoch
}

// begin opens a transaction that ends with the test at the latest.
func (e *queueEnv) begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := e.pool.Begin(e.ctx)
	pgtest.Must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(e.ctx) })
	return tx
}

// rows reads the tables.
func (e *queueEnv) rows() (all []adaptertest.QueueRow) {
	e.t.Helper()
	notes := ""
	if e.layout.Noted() {
		notes = "LEFT JOIN {notes} n ON n.queue = {queue} AND n.key = {key}::text"
	}
	for _, table := range e.tables {
		from := "{t} t"
		if e.deletedKept {
			from = "(TABLE {t} UNION ALL TABLE " + table.Name + "_done) t"
		}
		rows, err := e.pool.Query(e.ctx, e.sql(table.Name, `SELECT {key}::text, {type}::text, coalesce({group}::text, ''), {payload}::text,
{created}, {status}::text, coalesce({attempts}, 0)::int, coalesce({error}, '') FROM `+from+` `+notes+` ORDER BY {created}, {key}`))
		pgtest.Must(e.t, err)
		r := adaptertest.QueueRow{Table: table.Name}
		var status string
		_, err = pgx.ForEachRow(rows, []any{&r.Key, &r.Type, &r.Group, &r.Payload, &r.CreatedAt, &status, &r.Attempts, &r.Error}, func() error {
			for name, values := range e.statuses() {
				if slices.Contains(values, status) {
					r.Status = name
				}
			}
			all = append(all, r)
			return nil
		})
		pgtest.Must(e.t, err)
	}
	return all
}

// deleting makes a layout delete what was delivered. What is deleted goes to a table beside it, as done, where the suite
// finds it.
func (e *queueEnv) deleting() *queueEnv {
	e.layout.DoneIsDeleted, e.deletedKept = true, true
	for _, table := range e.tables {
		done := table.Name + "_done"
		e.exec("CREATE TABLE " + done + " (LIKE " + table.Name + ")")
		e.exec(e.sql(table.Name, `CREATE FUNCTION `+done+`() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
OLD.{set_status} := `+pg.Literal(e.layout.Statuses.Done)+`; INSERT INTO `+done+` SELECT (OLD).*; RETURN NULL; END$$`))
		e.exec("CREATE TRIGGER done AFTER DELETE ON " + table.Name + " FOR EACH ROW EXECUTE FUNCTION " + done + "()")
	}
	return e
}

func TestQueueConformance(t *testing.T) {
	t.Parallel()
	framework := func(e *queueEnv, t testing.TB) *queueEnv {
		e = e.claimless(t)
		e.exec(outboxFrameworkSystem.in(e.tables[0].Name, outboxFrameworkSystem.plain))
		_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
		pgtest.Must(t, err)
		return e
	}
	for name, tables := range map[string]func(*queueEnv, testing.TB) *queueEnv{
		"FlowCatalyst":            func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, false) },
		"FlowCatalystWithIndexes": func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true) },
		"Custom":                  (*queueEnv).custom,
		"OutboxFramework":         framework,
		"OutboxFrameworkDeleting": func(e *queueEnv, t testing.TB) *queueEnv { return framework(e, t).deleting() },
		"FlowCatalystTakingAll":   func(e *queueEnv, t testing.TB) *queueEnv { return e.flowCatalyst(t, true).takingAll() },
		"CustomTakingAll":         func(e *queueEnv, t testing.TB) *queueEnv { return e.custom(t).takingAll() },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "CustomTakingAll" && !testenv.Full() {
				t.Skip("much like Custom and FlowCatalystTakingAll; make race runs it")
			}
			t.Parallel()
			e := newQueueEnv(t)
			adaptertest.Queue(t, func(t *testing.T) adaptertest.QueueHarness { return tables(e, t).harness() })
		})
	}
}
