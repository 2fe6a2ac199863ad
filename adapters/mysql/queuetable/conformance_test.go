package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
	"github.com/outriderhq/outrider/internal/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// env is a database with queue tables.
type env struct {
	t      testing.TB
	url    string
	db     *sql.DB // for the test's own statements
	layout Layout
	tables []Table
	fenced bool
}

func newEnv(t testing.TB, l Layout, tables ...Table) *env {
	t.Helper()
	return newEnvAt(t, testenv.MySQL(t), l, tables...)
}

func newEnvAt(t testing.TB, url string, l Layout, tables ...Table) *env {
	t.Helper()
	e := &env{t: t, url: url, layout: l, tables: tables}
	db, err := (&my.Connection{URL: url}).Open()
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	e.db = db
	return e
}

// init runs Init.
func (e *env) init() {
	e.t.Helper()
	_, err := Init(e.t.Context(), e.db, e.layout, true, e.tables...)
	must(e.t, err)
}

// preset makes the tables of a preset.
func preset(t testing.TB, p *layout.Preset) *env {
	t.Helper()
	e := newEnv(t, *p.Queue, p.Queue.Tables...)
	e.init()
	if e.layout.Claimless() {
		e.fenced = true
		e.exec(`CREATE TABLE outrider_cursor (route VARCHAR(255), slot INT, epoch BIGINT NOT NULL, PRIMARY KEY (route, slot))`)
	}
	return e
}

// document makes FlowCatalyst's tables as its document does: whole seconds, and a collation that takes letters for equal.
func document(t testing.TB) *env {
	t.Helper()
	p := layout.FlowCatalyst()
	e := newEnv(t, *p.Queue, p.Queue.Tables...)
	for _, of := range e.tables {
		e.exec(`CREATE TABLE ` + of.Name + ` (id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP NULL, error_message TEXT)
    DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci`)
		e.exec(`CREATE INDEX idx_` + of.Name + `_status ON ` + of.Name + `(status, message_group, created_at)`)
	}
	e.init()
	return e
}

// customLayout is a mapping of everything that can be mapped.
func customLayout() Layout {
	c := layout.Columns{
		Key: "Event Id", Type: "event_type", Group: "aggregate", Payload: "body", Status: "state", Attempts: "tries",
		NextAttempt: "next_try_at", Created: "created", Claimed: "locked_at", Done: "sent_at", Error: "last_error", Owner: "locked_by",
		AggregateType: "kind", AggregateID: "aggregate", Tenant: "tenant", Headers: "headers",
	}
	return Layout{Columns: c, Statuses: layout.Statuses{Pending: "0", Retrying: "2", Processing: "4", Done: "1", Dead: "3"}}
}

// custom makes a table of its own with columns of these types.
func custom(t testing.TB, key, state, times string) *env {
	t.Helper()
	e := newEnv(t, customLayout(), Table{Name: "`Out ``Box`"})
	e.exec("CREATE TABLE `Out ``Box` (`Event Id` " + key + ` PRIMARY KEY NOT NULL, event_type text NOT NULL, aggregate varchar(200), kind text,
    tenant text, headers text, body longtext NOT NULL, state ` + state + ` NOT NULL, tries integer, next_try_at ` + times + ` NULL,
    created ` + times + ` NOT NULL DEFAULT '2020-01-01', locked_at ` + times + ` NULL, locked_by varchar(20), sent_at ` + times + ` NULL,
    last_error text) DEFAULT CHARSET=utf8mb4`)
	e.init()
	return e
}

func (e *env) exec(query string, args ...any) {
	e.t.Helper()
	_, err := e.db.ExecContext(context.Background(), query, args...)
	must(e.t, err)
}

// queue opens a queue, which the caller closes.
func (e *env) queue() *Queue {
	e.t.Helper()
	q, err := New(Config{URL: e.url, Tables: e.tables, Layout: e.layout, Fenced: e.fenced})
	must(e.t, err)
	return q
}

// statements are those of a table.
func (e *env) statements(of Table) *statements {
	e.t.Helper()
	t, err := newTable(of, &e.layout, adapters.DefaultMaxRow)
	must(e.t, err)
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

// name is a table's name as SQL has it.
func (e *env) name(of string) string {
	e.t.Helper()
	at, err := my.ParseTable(of)
	must(e.t, err)
	return at.SQL()
}

// insert writes rows in a transaction and leaves it open.
func (e *env) insertIn(rows ...adaptertest.QueueRow) *sql.Tx {
	e.t.Helper()
	tx, err := e.db.Begin()
	must(e.t, err)
	byTable := map[string][]*adaptertest.QueueRow{}
	for i := range rows {
		byTable[rows[i].Table] = append(byTable[rows[i].Table], &rows[i])
	}
	for table, rows := range byTable {
		must(e.t, e.insertRows(tx, table, rows))
	}
	return tx
}

func (e *env) insertRows(tx *sql.Tx, table string, rows []*adaptertest.QueueRow) error {
	c := &e.layout.Columns
	columns := []string{c.Key, c.Type, c.Payload, c.Status, c.Created}
	for _, optional := range []string{c.Group, c.Attempts} {
		if optional != "" {
			columns = append(columns, optional)
		}
	}
	if e.layout.GroupByType {
		columns = append(columns, c.NextAttempt)
	}
	quoted := make([]string, len(columns))
	for i := range columns {
		quoted[i] = my.Quote(columns[i])
	}
	var places []string
	var values []any
	for _, r := range rows {
		values = append(values, r.Key, cmp.Or(r.Type, "EVENT"), r.Payload, e.status(cmp.Or(r.Status, adaptertest.QueueWaiting))[0], r.CreatedAt)
		if c.Group != "" {
			values = append(values, sql.NullString{String: r.Group, Valid: r.Group != ""})
		}
		if c.Attempts != "" {
			values = append(values, r.Attempts)
		}
		if e.layout.GroupByType {
			values = append(values, r.CreatedAt)
		}
		places = append(places, "("+strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")+")")
	}
	_, err := tx.Exec("INSERT INTO "+e.name(table)+" ("+strings.Join(quoted, ", ")+") VALUES "+strings.Join(places, ", "), values...)
	return err
}

func (e *env) insert(rows ...adaptertest.QueueRow) {
	e.t.Helper()
	must(e.t, e.insertIn(rows...).Commit())
}

// rows reads the tables.
func (e *env) rows() (all []adaptertest.QueueRow) {
	e.t.Helper()
	c := &e.layout.Columns
	text := func(column, none string) string {
		if column == "" {
			return none
		}
		return "COALESCE(" + my.Quote(column) + ", " + none + ")"
	}
	for _, of := range e.tables {
		rows, err := e.db.Query("SELECT " + my.Quote(c.Key) + ", " + my.Quote(c.Type) + ", " + text(c.Group, "''") + ", " + my.Quote(c.Payload) + ", " +
			my.Quote(c.Created) + ", " + my.Quote(c.Status) + ", " + text(c.Attempts, "0") + ", " + text(c.Error, "''") +
			" FROM " + e.name(of.Name) + " ORDER BY " + my.Quote(c.Created) + ", " + my.Quote(c.Key))
		must(e.t, err)
		for rows.Next() {
			r := adaptertest.QueueRow{Table: of.Name}
			var status string
			must(e.t, rows.Scan(&r.Key, &r.Type, &r.Group, &r.Payload, &r.CreatedAt, &status, &r.Attempts, &r.Error))
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
		InsertLate: func(t *testing.T, rows ...adaptertest.QueueRow) func() {
			t.Helper()
			tx := e.insertIn(rows...)
			t.Cleanup(func() { _ = tx.Rollback() })
			return func() { must(t, tx.Commit()) }
		},
		Rows: func(t *testing.T) []adaptertest.QueueRow { t.Helper(); return e.rows() },
		Set: func(t *testing.T, status adaptertest.QueueStatus, since time.Duration, keys ...string) {
			t.Helper()
			e.set(status, since, keys...)
		},
	}
	if e.statements(e.tables[0]).precision(e.layout.Columns.Created) == 0 {
		h.Precision = time.Second
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
	h.Lock = e.lock
	return h
}

// refuse has triggers refuse that a row is done.
func (e *env) refuse(_ *testing.T, key string) (mend func()) {
	c, event, done := &e.layout.Columns, "UPDATE", " AND NEW."+my.Quote(e.layout.Columns.Status)+" = "+my.Literal(e.layout.Statuses.Done)
	if e.layout.DoneIsDeleted {
		event, done = "DELETE", ""
	}
	for i, of := range e.tables {
		e.exec(fmt.Sprintf("CREATE TRIGGER refuse_%d BEFORE %s ON %s FOR EACH ROW BEGIN IF OLD.%s = %s%s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it is frozen'; END IF; END",
			i, event, e.name(of.Name), my.Quote(c.Key), my.Literal(key), done))
	}
	return func() {
		for i := range e.tables {
			e.exec(fmt.Sprintf("DROP TRIGGER refuse_%d", i))
		}
	}
}

// lock locks rows in another transaction.
func (e *env) lock(t *testing.T, keys ...string) (release func()) {
	t.Helper()
	tx, err := e.db.Begin()
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, of := range e.tables {
		for _, key := range keys {
			_, err := tx.Exec("SELECT 1 FROM "+e.name(of.Name)+" WHERE "+my.Quote(e.layout.Columns.Key)+" = ? FOR UPDATE", key)
			must(t, err)
		}
	}
	return func() { must(t, tx.Commit()) }
}

func (e *env) set(status adaptertest.QueueStatus, since time.Duration, keys ...string) {
	e.t.Helper()
	c := &e.layout.Columns
	for _, of := range e.tables {
		for _, key := range keys {
			more, args := "", []any{e.status(status)[0]}
			if !e.layout.Claimless() {
				more, args = ", "+my.Quote(c.Claimed)+" = NOW(6) - INTERVAL ? SECOND", append(args, int(since.Seconds()))
			}
			e.exec("UPDATE "+e.name(of.Name)+" SET "+my.Quote(c.Status)+" = ?"+more+" WHERE "+my.Quote(c.Key)+" = ?", append(args, key)...)
		}
	}
}

// own raises the epoch of lanes.
func (e *env) own(t *testing.T, slots ...int) (epoch int64) {
	t.Helper()
	must(t, my.Transact(t.Context(), e.db, func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT COALESCE(MAX(epoch), 0) + 1 FROM outrider_cursor`).Scan(&epoch); err != nil {
			return err
		}
		for _, slot := range slots {
			if _, err := tx.Exec(`INSERT INTO outrider_cursor VALUES ('suite', ?, ?) ON DUPLICATE KEY UPDATE epoch = VALUES(epoch)`, slot, epoch); err != nil {
				return err
			}
		}
		return nil
	}))
	return epoch
}

// talkie is Talkie's table with keys that are text, as those of the tests.
func talkie(t testing.TB) *env {
	t.Helper()
	e := preset(t, layout.Talkie())
	e.exec("ALTER TABLE outbox MODIFY id VARCHAR(20)")
	return e
}

func TestQueueConformance(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(testing.TB) *env{
		"OutboxFramework": func(t testing.TB) *env { return plainJSON(preset(t, layout.OutboxFramework())) },
		"FlowCatalyst":    document,
		"Talkie":          talkie,
		"Custom":          func(t testing.TB) *env { return custom(t, "varchar(36)", "tinyint", "datetime(6)") },
		"CustomSeconds":   func(t testing.TB) *env { return custom(t, "char(36)", "varchar(3)", "timestamp") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Queue(t, func(t *testing.T) adaptertest.QueueHarness { return prepare(t).harness() })
		})
	}
}

// plainJSON removes what MariaDB checks of a column of the type JSON: the suite has a payload that is none.
func plainJSON(e *env) *env {
	e.t.Helper()
	e.exec("ALTER TABLE outbox_event MODIFY payload LONGTEXT NOT NULL")
	return e
}
