package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// TestG2_PublishKeepsTheOrderWhateverTheIds: envelopes with ids of the application, which descend, are read in the order in which they were
// written, in one call and in several of a transaction.
func TestG2_PublishKeepsTheOrderWhateverTheIds(t *testing.T) {
	t.Parallel()
	const calls, each = 4, 300
	client := func(layout string, dialect outbox.Dialect) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			t.Helper()
			c, err := outbox.NewClient(outbox.ClientConfig{Dialect: dialect, Layout: layout})
			must(t, err)
			must(t, outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
				for call := range calls {
					all := make([]outbox.Envelope, each)
					for i := range all {
						n := call*len(all) + i
						all[i], err = outbox.New("t").Aggregate("order", "7").Group("7").JSON(n).ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", 100_000-n)).Build()
						must(t, err)
					}
					must(t, c.Publish(ctx, nil, all...))
				}
				return nil
			}))
		}
	}
	catalyst := func(dialect outbox.Dialect) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			t.Helper()
			c, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{Dialect: dialect})
			must(t, err)
			must(t, outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
				for call := range calls {
					all := make([]outbox.FlowCatalystItem, each)
					for i := range all {
						n := call*len(all) + i
						all[i] = outbox.FlowCatalystItem{ID: fmt.Sprintf("%013d", 100_000-n), Group: "7", Payload: fmt.Append(nil, n)}
					}
					_, err := c.Publish(ctx, nil, all...)
					must(t, err)
				}
				return nil
			}))
		}
	}
	postgres := func(table string) func(*testing.T) *sql.DB {
		return func(t *testing.T) *sql.DB {
			t.Helper()
			db := openDB(t, "pgx", testenv.Postgres(t))
			_, err := db.ExecContext(t.Context(), table)
			must(t, err)
			return db
		}
	}
	mysql := func(table string) func(*testing.T) *sql.DB {
		return func(t *testing.T) *sql.DB { t.Helper(); return mysqlDB(t, testenv.MySQL(t), nil, table) }
	}
	for name, of := range map[string]struct {
		open      func(*testing.T) *sql.DB
		publish   func(*testing.T, *sql.DB)
		table, id string
	}{
		"framework, PostgreSQL": {postgres(frameworkTable("timestamptz")), client("outbox-framework", outbox.PostgreSQL), "outbox_event", "event_id"},
		"framework, MySQL":      {mysql(mysqlFramework), client("outbox-framework", outbox.MySQL), "outbox_event", "event_id"},
		"framework, SQLite": {func(t *testing.T) *sql.DB {
			t.Helper()
			db := openDB(t, "sqlite", filepath.Join(t.TempDir(), "app.db"))
			_, err := db.ExecContext(t.Context(), frameworkTable("text"))
			must(t, err)
			_, err = db.ExecContext(t.Context(), `INSERT INTO outbox_event (rowid, event_id, event_type, payload, status, available_at, created_at) VALUES (999900, '', '', '', 1, '', '')`)
			must(t, err)
			return db
		}, client("outbox-framework", outbox.SQLite), "outbox_event", "event_id"},
		"Yantra": {postgres(`CREATE TABLE outbox_messages (id uuid PRIMARY KEY, aggregate_id text, aggregate_type text, event_type text, payload json, status text, created_at timestamp)`),
			client("yantra", outbox.PostgreSQL), "outbox_messages", "id"},
		"FlowCatalyst, PostgreSQL": {postgres(`CREATE TABLE outbox_events (id text PRIMARY KEY, type text, message_group text, payload text, status text, retry_count int, created_at timestamp)`),
			catalyst(outbox.PostgreSQL), "outbox_events", "id"},
		"FlowCatalyst, MySQL": {mysql(`CREATE TABLE outbox_events (id varchar(13) PRIMARY KEY, type text, message_group text, payload text, status text, retry_count int, created_at timestamp(6))`),
			catalyst(outbox.MySQL), "outbox_events", "id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := of.open(t)
			of.publish(t, db)
			rows, err := db.QueryContext(t.Context(), "SELECT payload FROM "+of.table+" WHERE status <> '1' ORDER BY created_at, "+of.id)
			must(t, err)
			defer func() { must(t, rows.Close()) }()
			var got []int
			for rows.Next() {
				var n int
				must(t, rows.Scan(&n))
				got = append(got, n)
			}
			must(t, rows.Err())
			wrong := 0
			for i, n := range got {
				if i != n {
					wrong++
				}
			}
			if wrong > 0 || len(got) != calls*each {
				t.Errorf("%d of %d rows are not in their place", wrong, len(got))
			}
		})
	}
}

// frameworkTable is the outbox framework's table as PostgreSQL and SQLite take it.
func frameworkTable(times string) string {
	return `CREATE TABLE outbox_event (event_id text PRIMARY KEY NOT NULL, event_type text NOT NULL, aggregate_type text, aggregate_id text, tenant_id text, payload json NOT NULL,
		headers json, status integer NOT NULL, attempts integer NOT NULL DEFAULT 0, available_at ` + times + ` NOT NULL, created_at ` + times + ` NOT NULL, done_at text, last_error text)`
}
