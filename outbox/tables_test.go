package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// The tables as `outrider init` makes them, without what only reading needs.
const (
	postgresTable = `CREATE TABLE %s (
		xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
		slot smallint GENERATED ALWAYS AS ((hashtextextended(coalesce(message_group, id), 0) & 15)::smallint) STORED,
		position bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
		id text NOT NULL DEFAULT gen_random_uuid()::text,
		type text NOT NULL,
		message_group text, aggregate_type text, aggregate_id text, tenant_id text,
		tags json, headers json,
		payload json, payload_bytes bytea, CHECK (num_nonnulls(payload, payload_bytes) = 1),
		occurred_at timestamptz,
		created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
		PRIMARY KEY (slot, position))`
	sqliteTable = `CREATE TABLE %s (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		id TEXT NOT NULL, type TEXT NOT NULL,
		message_group TEXT, aggregate_type TEXT, aggregate_id TEXT, tenant_id TEXT,
		tags TEXT, headers TEXT, payload TEXT, payload_bytes BLOB,
		occurred_at TEXT, created_at TEXT NOT NULL)`
)

// postgresURL returns the address of a database with an outbox table.
func postgresURL(t *testing.T) string {
	t.Helper()
	url := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { must(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), fmt.Sprintf(postgresTable, outbox.DefaultTable))
	must(t, err)
	return url
}

func postgresPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgresURL(t))
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func postgresDB(t *testing.T) *sql.DB { return openDB(t, "pgx", postgresURL(t)) }

// sqliteDB returns a new database file with an outbox table.
func sqliteDB(t *testing.T) *sql.DB {
	t.Helper()
	db := openDB(t, "sqlite", filepath.Join(t.TempDir(), "app.db")+"?_pragma=synchronous(0)")
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(sqliteTable, outbox.DefaultTable))
	must(t, err)
	return db
}

func openDB(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func client(t *testing.T, dialect outbox.Dialect) *outbox.Client {
	t.Helper()
	c, err := outbox.NewClient(outbox.ClientConfig{Dialect: dialect})
	must(t, err)
	return c
}

// event builds an envelope that is right but for what a test changes.
func event(t *testing.T, group string) outbox.Envelope {
	t.Helper()
	e, err := outbox.New("order.created").Group(group).JSON(map[string]int{"total": 7}).Build()
	must(t, err)
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stored is a row as the database returned it; nil stands for NULL.
type stored struct {
	id, typ                            string
	group, aggType, aggID, tenant      *string
	tags, headers, payload, occurredAt *string
	bytes                              []byte
	bytesNull                          bool
	position                           int64
}

// inTx runs f in a transaction and commits.
func inTx(t *testing.T, db *sql.DB, f func(tx *sql.Tx)) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }() // after a failed test; otherwise it has ended
	f(tx)
	must(t, tx.Commit())
}

// rows reads the whole table by position, with either database.
func rows(t *testing.T, db *sql.DB, dialect outbox.Dialect) []stored {
	t.Helper()
	at := "occurred_at"
	if dialect == outbox.PostgreSQL {
		at = `to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
	}
	res, err := db.QueryContext(t.Context(), `SELECT id, type, message_group, aggregate_type, aggregate_id, tenant_id,
		CAST(tags AS text), CAST(headers AS text), CAST(payload AS text), payload_bytes, payload_bytes IS NULL, `+at+`, position
		FROM `+outbox.DefaultTable+` ORDER BY position`)
	must(t, err)
	defer func() { must(t, res.Close()) }()
	var out []stored
	for res.Next() {
		var s stored
		must(t, res.Scan(&s.id, &s.typ, &s.group, &s.aggType, &s.aggID, &s.tenant,
			&s.tags, &s.headers, &s.payload, &s.bytes, &s.bytesNull, &s.occurredAt, &s.position))
		out = append(out, s)
	}
	must(t, res.Err())
	return out
}

// differs compares a row with the envelope that was published.
func (s stored) differs(e outbox.Envelope) string {
	for _, f := range []struct {
		name string
		got  *string
		want string
	}{
		{"group", s.group, e.Group()}, {"aggregate type", s.aggType, e.AggregateType()},
		{"aggregate id", s.aggID, e.AggregateID()}, {"tenant", s.tenant, e.Tenant()},
	} {
		if (f.got == nil) != (f.want == "") || f.got != nil && *f.got != f.want {
			return fmt.Sprintf("%s: stored %v, published %q", f.name, show(f.got), f.want)
		}
	}
	if s.id != e.ID() || s.typ != e.Type() {
		return fmt.Sprintf("id and type: stored %q %q, published %q %q", s.id, s.typ, e.ID(), e.Type())
	}
	if d := mapDiffers(s.tags, e.Tags()); d != "" {
		return "tags: " + d
	}
	if d := mapDiffers(s.headers, e.Headers()); d != "" {
		return "headers: " + d
	}
	if s.bytesNull == e.Binary() || (s.payload == nil) != e.Binary() {
		return fmt.Sprintf("payload columns: json %v, bytes NULL %t, published binary %t", show(s.payload), s.bytesNull, e.Binary())
	}
	if got := string(s.bytes); e.Binary() && got != string(e.Payload()) || !e.Binary() && *s.payload != string(e.Payload()) {
		return fmt.Sprintf("payload: stored %q or %v, published %q", got, show(s.payload), e.Payload())
	}
	at, err := time.Parse(time.RFC3339Nano, *s.occurredAt)
	if err != nil || !at.Equal(e.OccurredAt()) {
		return fmt.Sprintf("occurred at: stored %v (%v), published %v", *s.occurredAt, err, e.OccurredAt())
	}
	return ""
}

func mapDiffers(got *string, want map[string]string) string {
	if got == nil || len(want) == 0 {
		if (got == nil) != (len(want) == 0) {
			return fmt.Sprintf("stored %v, published %v", show(got), want)
		}
		return ""
	}
	var m map[string]string
	err := json.Unmarshal([]byte(*got), &m)
	if err != nil || fmt.Sprint(m) != fmt.Sprint(want) {
		return fmt.Sprintf("stored %s (%v), published %v", *got, err, want)
	}
	return ""
}

func show(s *string) string {
	if s == nil {
		return "NULL"
	}
	return fmt.Sprintf("%q", *s)
}

// execOn runs a statement on a connection of its own.
func execOn(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), statement)
	must(t, err)
}
