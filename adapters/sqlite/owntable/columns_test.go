package owntable_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
)

// ledger is a table of an application's own.
const ledger = `CREATE TABLE "My Events" ("no" INTEGER PRIMARY KEY AUTOINCREMENT, event_id, kind TEXT, customer, thing TEXT,
	"thing id" TEXT, who TEXT, labels TEXT, extra TEXT, body, happened TEXT, made TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))`

var ledgerColumns = owntable.Columns{Position: "no", ID: "event_id", Payload: "body", Type: "kind", Group: "customer",
	AggregateType: "thing", AggregateID: "thing id", Tenant: "who", Headers: "extra", Tags: "labels", OccurredAt: "happened", CreatedAt: "made"}

// mapped makes a database with the statements and a source that reads it.
func mapped(t *testing.T, columns owntable.Columns, statements ...string) (*sql.DB, *owntable.Source) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range append([]string{"PRAGMA journal_mode = WAL"}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	source, err := owntable.New(owntable.Config{Path: path, Table: "My Events", Columns: &columns, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return db, source
}

func TestSourceConformanceCustom(t *testing.T) {
	t.Parallel()
	adaptertest.Source(t, func(t *testing.T) adaptertest.SourceHarness {
		db, source := mapped(t, ledgerColumns, ledger)
		return adaptertest.SourceHarness{
			Source: source,
			Insert: func(t *testing.T, rows ...adapters.Row) { insertMapped(t, db, rows) },
			InsertBroken: func(t *testing.T, group string) {
				if _, err := db.Exec(`INSERT INTO "My Events" (event_id, kind, customer, body, labels) VALUES ('b', 't', ?, '1', '[1]')`, group); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func insertMapped(t *testing.T, db *sql.DB, rows []adapters.Row) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = tx.Rollback() }()
	for i := range rows {
		r := &rows[i]
		var body, happened any = r.Payload, nil
		if !r.Binary {
			body = string(r.Payload)
		}
		if !r.OccurredAt.IsZero() {
			happened = r.OccurredAt.Format(time.RFC3339Nano)
		}
		if _, err := tx.Exec(`INSERT INTO "My Events" (event_id, kind, customer, thing, "thing id", who, labels, extra, body, happened)
VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.Type, r.Group, r.AggregateType, r.AggregateID, r.Tenant,
			object(r.Tags), object(r.Headers), body, happened); err != nil {
			t.Error(err)
			return
		}
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

func TestCustomTableIsChecked(t *testing.T) {
	t.Parallel()
	with := func(change func(*owntable.Columns)) owntable.Columns {
		c := ledgerColumns
		change(&c)
		return c
	}
	plain := strings.Replace(ledger, "AUTOINCREMENT", "", 1)
	for name, c := range map[string]struct {
		columns owntable.Columns
		table   string
		want    []string
	}{
		"no table":     {ledgerColumns, "SELECT 1", []string{"does not exist"}},
		"no columns":   {with(func(c *owntable.Columns) { c.Type, c.Group = "sort", "client" }), ledger, []string{"no column sort (type)", "no column client (group)"}},
		"plain key":    {ledgerColumns, plain, []string{"column no (position) is not INTEGER PRIMARY KEY AUTOINCREMENT"}},
		"another key":  {with(func(c *owntable.Columns) { c.Position = "thing" }), ledger, []string{"column thing (position)"}},
		"a view":       {ledgerColumns, strings.Replace(ledger, "My Events", "e", 1) + `; CREATE VIEW "My Events" AS SELECT * FROM e`, []string{"a view cannot be read"}},
		"in order":     {ledgerColumns, ledger, nil},
		"constants":    {with(func(c *owntable.Columns) { c.Type, c.Tenant = "=it's", "=acme" }), ledger, nil},
		"only what is": {owntable.Columns{Position: "no", ID: "event_id", Payload: "body", Type: "=t"}, ledger, nil},
	} {
		_, source := mapped(t, c.columns, c.table)
		err := source.Check(t.Context())
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if _, err := owntable.New(owntable.Config{Path: "x", Table: "t", Columns: &owntable.Columns{ID: "=1"}}); err == nil ||
		!strings.Contains(err.Error(), "for position") || !strings.Contains(err.Error(), "id cannot be the same") {
		t.Errorf("a mapping that says too little: %v", err)
	}
}

// What is read, counted and started at is found by the primary key, not by
// copying the table.
func TestG8_CustomTableIsReadByItsKey(t *testing.T) {
	t.Parallel()
	db, source := mapped(t, owntable.Columns{Position: "no", ID: "event_id", Payload: "body", Type: "=it's"}, ledger,
		`INSERT INTO "My Events" (event_id, body) VALUES (7, 'no json'), (8, '{"a":1}')`)
	rows, err := db.Query("EXPLAIN QUERY PLAN "+source.Query(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	if len(plan) != 1 || !strings.Contains(plan[0], "USING INTEGER PRIMARY KEY (rowid>?)") || rows.Err() != nil {
		t.Errorf("the plan is %q, %v", plan, rows.Err())
	}
	var got []string
	reads := make([]adapters.Read, adapters.Slots)
	for i := range reads {
		reads[i] = adapters.Read{Slot: i, Limit: 10}
	}
	if _, err := source.Fetch(t.Context(), reads, func(_ int, r *adapters.Row) bool {
		got = append(got, r.ID+" "+r.Type)
		if r.Binary != (r.ID == "7") || r.Err != nil {
			t.Errorf("row %s: binary %v, %v", r.ID, r.Binary, r.Err)
		}
		return true
	}); err != nil || len(got) != 2 || !strings.HasSuffix(got[0], " it's") {
		t.Errorf("read %q, %v", got, err)
	}
	for _, err := range []error{
		second(source.Start(t.Context(), adapters.Start{Kind: adapters.StartTime, Time: time.Now()})), second(source.Rebase(t.Context(), nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "no column says when a row was created") {
			t.Errorf("without created_at: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
