package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	"github.com/outriderhq/outrider/internal/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// env is a file with queue tables.
type env struct {
	t      testing.TB
	path   string
	db     *sql.DB // for the test's own statements
	layout Layout
	tables []Table
	fenced bool
	known  map[string]*statements // for the types of columns, by table
}

func newEnv(t testing.TB, l Layout, tables ...Table) *env {
	t.Helper()
	e := &env{t: t, path: filepath.Join(t.TempDir(), "app.db"), layout: l, tables: tables}
	db, err := lite.Open(e.path)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	e.db = db
	return e
}

// preset makes the tables of a preset.
func preset(t testing.TB, p *layout.Preset) *env {
	t.Helper()
	e := newEnv(t, *p.Queue, p.Queue.Tables...)
	_, err := Init(t.Context(), e.db, e.layout, true, e.tables...)
	must(t, err)
	e.learn()
	if e.layout.Claimless() {
		e.fenced = true
		e.exec(`CREATE TABLE outrider_cursor (route text, slot integer, epoch integer NOT NULL, PRIMARY KEY (route, slot))`)
	}
	return e
}

// customLayout is a mapping of everything that can be mapped.
func customLayout() Layout {
	c := layout.Columns{
		Key: "Event Id", Type: "event_type", Group: "aggregate", Payload: "body", Status: "state", Attempts: "tries",
		NextAttempt: "next_try_at", Created: "created", Claimed: "locked_at", Done: "sent_at", Error: "last_error",
		AggregateType: "kind", AggregateID: "aggregate", Tenant: "tenant", Headers: "headers",
	}
	return Layout{Columns: c, Statuses: layout.Statuses{Pending: "0", Retrying: "2", Processing: "4", Done: "1", Dead: "3"}}
}

// custom makes a table of its own with columns of these types; times of integers are milliseconds.
func custom(t testing.TB, key, state, times, more string) *env {
	t.Helper()
	e := newEnv(t, customLayout(), Table{Name: "Out Box"})
	e.exec(`CREATE TABLE "Out Box" ("Event Id" ` + key + ` PRIMARY KEY NOT NULL, event_type text NOT NULL, aggregate text COLLATE NOCASE, kind text,
    tenant text, headers text, body text NOT NULL, state ` + state + ` NOT NULL, tries integer, next_try_at ` + times + `,
    created ` + times + ` NOT NULL, locked_at ` + times + `, sent_at ` + times + `, last_error text)` + more)
	_, err := Init(t.Context(), e.db, e.layout, false, e.tables...)
	must(t, err)
	e.learn()
	return e
}

func (e *env) exec(query string, args ...any) {
	e.t.Helper()
	must(e.t, lite.RetryBusy(context.Background(), func() error { _, err := e.db.Exec(query, args...); return err }))
}

// queue opens a queue, which the caller closes.
func (e *env) queue() *Queue {
	e.t.Helper()
	q, err := New(Config{Path: e.path, Tables: e.tables, Layout: e.layout, Fenced: e.fenced})
	must(e.t, err)
	return q
}

// statements are those of a table.
func (e *env) statements(of Table) *statements {
	e.t.Helper()
	t := newTable(of, &e.layout, adapters.DefaultMaxRow)
	s, err := t.describe(context.Background(), e.db)
	must(e.t, err)
	return s
}

// status are the suite's statuses as the layout has them.
func (e *env) status(of adaptertest.QueueStatus) []string {
	s := &e.layout.Statuses
	return map[adaptertest.QueueStatus][]string{
		adaptertest.QueueWaiting: s.Waiting(), adaptertest.QueueProcessing: {s.Processing},
		adaptertest.QueueDone: {s.Done}, adaptertest.QueueDead: e.layout.Dead(),
	}[of]
}

func (e *env) insert(rows ...adaptertest.QueueRow) {
	e.t.Helper()
	must(e.t, lite.Transact(context.Background(), e.db, func(tx *sql.Tx) error {
		for i := range rows {
			if err := e.insertRow(tx, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (e *env) insertRow(tx *sql.Tx, r *adaptertest.QueueRow) error {
	c := &e.layout.Columns
	s := e.types(r.Table)
	columns, values := []string{c.Key, c.Type, c.Payload, c.Status, c.Created}, []any{r.Key, cmp.Or(r.Type, "EVENT"), r.Payload,
		e.status(cmp.Or(r.Status, adaptertest.QueueWaiting))[0], s.timeValue(c.Created, textTime, r.CreatedAt)}
	if c.Group != "" {
		columns, values = append(columns, c.Group), append(values, sql.NullString{String: r.Group, Valid: r.Group != ""})
	}
	if c.Attempts != "" {
		columns, values = append(columns, c.Attempts), append(values, r.Attempts)
	}
	if e.layout.GroupByType { // which are two required columns
		columns, values = append(columns, c.NextAttempt), append(values, s.timeValue(c.NextAttempt, textTime, r.CreatedAt))
	}
	quoted := make([]string, len(columns))
	for i := range columns {
		quoted[i] = lite.Quote(columns[i])
	}
	_, err := tx.Exec("INSERT INTO "+lite.Quote(r.Table)+" ("+strings.Join(quoted, ", ")+") VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")", values...)
	return err
}

// types are a table's statements before it is described, for its types.
func (e *env) types(table string) *statements {
	return e.known[table]
}

// learn looks the types of columns up.
func (e *env) learn() {
	e.t.Helper()
	e.known = map[string]*statements{}
	for _, of := range e.tables {
		t := newTable(of, &e.layout, 1)
		types, err := t.columns(context.Background(), e.db)
		must(e.t, err)
		e.known[of.Name] = newStatements(t, types)
	}
}

// rows reads the tables.
func (e *env) rows() (all []adaptertest.QueueRow) {
	e.t.Helper()
	c := &e.layout.Columns
	for _, of := range e.tables {
		found := "''"
		if c.Error != "" {
			found = "coalesce(" + lite.Quote(c.Error) + ", '')"
		}
		rows, err := e.db.Query(`SELECT CAST(` + lite.Quote(c.Key) + ` AS TEXT), ` + lite.Quote(c.Type) + `, coalesce(` + lite.Quote(c.Group) + `, ''), CAST(` + lite.Quote(c.Payload) +
			` AS TEXT), +` + lite.Quote(c.Created) + `, CAST(` + lite.Quote(c.Status) + ` AS TEXT), coalesce(` + lite.Quote(c.Attempts) + `, 0), ` + found +
			` FROM ` + lite.Quote(of.Name) + ` ORDER BY ` + lite.Quote(c.Created) + `, ` + lite.Quote(c.Key))
		must(e.t, err)
		for rows.Next() {
			r := adaptertest.QueueRow{Table: of.Name}
			var created any
			var status string
			must(e.t, rows.Scan(&r.Key, &r.Type, &r.Group, &r.Payload, &created, &status, &r.Attempts, &r.Error))
			r.CreatedAt, err = timeOf("created", created)
			must(e.t, err)
			for _, s := range []adaptertest.QueueStatus{adaptertest.QueueWaiting, adaptertest.QueueProcessing, adaptertest.QueueDone, adaptertest.QueueDead} {
				if slices.Contains(e.status(s), status) {
					r.Status = s
				}
			}
			all = append(all, r)
		}
		must(e.t, errors.Join(rows.Err(), rows.Close())) //nolint:sqlclosecheck // a fault ends the test
	}
	return all
}

func (e *env) harness() adaptertest.QueueHarness {
	h := adaptertest.QueueHarness{
		Queue: e.queue(), Open: func(*testing.T) adapters.OperatorQueue { return e.queue() },
		DefaultGroup: e.layout.DefaultGroup, RetriesOnly: e.layout.DeadKeepsRetries, Timeout: DefaultTimeout, Claimless: e.layout.Claimless(),
		Insert: func(t *testing.T, rows ...adaptertest.QueueRow) { t.Helper(); e.insert(rows...) },
		Rows:   func(t *testing.T) []adaptertest.QueueRow { t.Helper(); return e.rows() },
		Set: func(t *testing.T, status adaptertest.QueueStatus, since time.Duration, keys ...string) {
			t.Helper()
			e.set(status, since, keys...)
		},
	}
	for _, of := range e.tables {
		h.Tables = append(h.Tables, of.Name)
		prefix := of.Kind
		if prefix != "" {
			prefix += ":"
		}
		h.Prefixes = append(h.Prefixes, prefix)
	}
	h.Retaining = func(t *testing.T) adapters.OperatorQueue {
		t.Helper()
		inner := *e
		inner.layout.OldIsDeleted = true
		_, err := Init(t.Context(), e.db, inner.layout, false, e.tables...)
		must(t, err)
		return inner.queue()
	}
	h.Refuse = e.refuse
	if e.fenced {
		h.Own = e.own
	}
	return h
}

// refuse has triggers refuse that a row is done.
func (e *env) refuse(_ *testing.T, key string) (mend func()) {
	c, event, done := &e.layout.Columns, "UPDATE", " AND CAST(NEW."+lite.Quote(e.layout.Columns.Status)+" AS TEXT) = '"+e.layout.Statuses.Done+"'"
	if e.layout.DoneIsDeleted {
		event, done = "DELETE", ""
	}
	for i, of := range e.tables {
		e.exec(fmt.Sprintf("CREATE TRIGGER refuse_%d BEFORE %s ON %s WHEN CAST(OLD.%s AS TEXT) = '%s'%s BEGIN SELECT RAISE(ABORT, 'it is frozen'); END",
			i, event, lite.Quote(of.Name), lite.Quote(c.Key), key, done))
	}
	return func() {
		for i := range e.tables {
			e.exec(fmt.Sprintf("DROP TRIGGER refuse_%d", i))
		}
	}
}

func (e *env) set(status adaptertest.QueueStatus, since time.Duration, keys ...string) {
	e.t.Helper()
	c := &e.layout.Columns
	for _, of := range e.tables {
		for _, key := range keys {
			e.exec("UPDATE "+lite.Quote(of.Name)+" SET "+lite.Quote(c.Status)+" = ? WHERE "+lite.Quote(c.Key)+" = ?", e.status(status)[0], key)
			if !e.layout.Claimless() {
				e.exec("UPDATE "+lite.Quote(of.Name)+" SET "+lite.Quote(c.Claimed)+" = ? WHERE "+lite.Quote(c.Key)+" = ?",
					e.types(of.Name).timeValue(c.Created, textStamp, time.Now().Add(-since)), key)
			}
		}
	}
}

// own raises the epoch of lanes.
func (e *env) own(t *testing.T, slots ...int) (epoch int64) {
	t.Helper()
	must(t, lite.Transact(t.Context(), e.db, func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT coalesce(max(epoch), 0) + 1 FROM outrider_cursor`).Scan(&epoch); err != nil {
			return err
		}
		for _, slot := range slots {
			if _, err := tx.Exec(`INSERT INTO outrider_cursor VALUES ('suite', ?, ?) ON CONFLICT (route, slot) DO UPDATE SET epoch = excluded.epoch`, slot, epoch); err != nil {
				return err
			}
		}
		return nil
	}))
	return epoch
}

func TestQueueConformance(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(testing.TB) *env{
		"OutboxFramework": func(t testing.TB) *env { return preset(t, layout.OutboxFramework()) },
		"OutboxFrameworkUnfenced": func(t testing.TB) *env {
			e := preset(t, layout.OutboxFramework())
			e.fenced = false
			return e
		},
		"FlowCatalyst": func(t testing.TB) *env { return preset(t, layout.FlowCatalyst()) },
		"OpenOutbox": func(t testing.TB) *env {
			p := layout.OpenOutbox()
			for i, c := range p.Queue.Definitions[layout.SQLite].Columns {
				if c.Name == p.Queue.Columns.Payload { // bytes of any kind are a payload, and the suite wants some that are none
					p.Queue.Definitions[layout.SQLite].Columns[i].Type = "text"
				}
			}
			return preset(t, p)
		},
		"Talkie": func(t testing.TB) *env {
			p := layout.Talkie()
			for i, c := range p.Queue.Definitions[layout.SQLite].Columns {
				if c.Name == p.Queue.Columns.Key { // the table numbers its rows, and the suite has keys of its own
					p.Queue.Definitions[layout.SQLite].Columns[i].Type = "text PRIMARY KEY NOT NULL"
				}
			}
			return preset(t, p)
		},
		"Custom": func(t testing.TB) *env { return custom(t, "varchar(36)", "tinyint", "datetime", "") },
		"CustomIntegers": func(t testing.TB) *env {
			return custom(t, "text", "text", "bigint", "")
		},
		"CustomWithoutRowids": func(t testing.TB) *env { return custom(t, "text", "int", "text", " WITHOUT ROWID") },
		"CustomWithoutIndexes": func(t testing.TB) *env {
			e := custom(t, "text", "int", "text", "")
			for _, i := range e.statements(e.tables[0]).indexes() {
				e.exec("DROP INDEX " + lite.Quote(i.name))
			}
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"OutboxFramework", "FlowCatalyst", "Talkie", "Custom", "CustomWithoutRowids"}, name) && !testenv.Full() {
				t.Skip("much like the others, which take five seconds each; make race runs them")
			}
			t.Parallel()
			adaptertest.Queue(t, func(t *testing.T) adaptertest.QueueHarness { return prepare(t).harness() })
		})
	}
}
