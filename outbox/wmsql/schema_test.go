package wmsql_test

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	outridersql "github.com/outriderhq/outrider/outbox/wmsql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tables as `outrider init` makes them, without what only reading needs.
const (
	postgresTable = `CREATE TABLE outrider_outbox (
		position bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
		id text NOT NULL, type text NOT NULL,
		message_group text, aggregate_type text, aggregate_id text, tenant_id text,
		tags json, headers json,
		payload json, payload_bytes bytea, CHECK (num_nonnulls(payload, payload_bytes) = 1),
		occurred_at timestamptz, created_at timestamptz NOT NULL DEFAULT clock_timestamp())`
	sqliteTable = `CREATE TABLE outrider_outbox (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		id TEXT NOT NULL, type TEXT NOT NULL,
		message_group TEXT, aggregate_type TEXT, aggregate_id TEXT, tenant_id TEXT,
		tags TEXT, headers TEXT, payload TEXT, payload_bytes BLOB,
		occurred_at TEXT, created_at TEXT NOT NULL)`
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open returns a database with an outbox table.
func open(t *testing.T, dialect outbox.Dialect) *stdsql.DB {
	t.Helper()
	if dialect == outbox.SQLite {
		return openAt(t, "sqlite", filepath.Join(t.TempDir(), "app.db"), sqliteTable)
	}
	return openAt(t, "pgx", testenv.Postgres(t), postgresTable)
}

// openAt opens a database and makes the table there.
func openAt(t *testing.T, driver, source, table string) *stdsql.DB {
	t.Helper()
	db, err := stdsql.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), table)
	must(t, err)
	return db
}

// contents returns the table's rows, the columns joined by "|", by position.
func contents(t *testing.T, db *stdsql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT id, type, message_group, aggregate_type, aggregate_id, tenant_id,
		CAST(tags AS text), CAST(headers AS text), CAST(payload AS text), payload_bytes, occurred_at IS NOT NULL
		FROM outrider_outbox ORDER BY position`)
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	var out []string
	for rows.Next() {
		cols, at := make([]stdsql.NullString, 10), false
		dest := []any{}
		for i := range cols {
			dest = append(dest, &cols[i])
		}
		must(t, rows.Scan(append(dest, &at)...))
		var texts []string
		for _, c := range cols {
			if !c.Valid {
				c.String = "-"
			}
			texts = append(texts, c.String)
		}
		if !at {
			t.Error("a row has no occurred_at")
		}
		out = append(out, strings.Join(texts, "|"))
	}
	must(t, rows.Err())
	return out
}

func full() *message.Message {
	msg := message.NewMessage("evt-1", []byte("{\"a\": \"x\\ny\",\n \"b\":1.0}"))
	msg.Metadata = message.Metadata{
		outbox.MetaType: "order.created", outbox.MetaGroup: "customer-7", outbox.MetaAggregateType: "order",
		outbox.MetaAggregateID: "42", outbox.MetaTenant: "acme", outbox.MetaTags: `{"region":"eu"}`,
		outbox.MetaOccurredAt: "2026-01-02T15:04:05.123456Z", outbox.MetaPosition: "9", outbox.MetaLane: "orders/07",
		"traceparent": "00-ab",
	}
	return msg
}

func TestStockPublisherWritesTheTable(t *testing.T) {
	t.Parallel()
	for _, dialect := range []outbox.Dialect{outbox.SQLite, outbox.PostgreSQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			db := open(t, dialect)
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			pub, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: outridersql.Schema{Dialect: dialect}}, nil)
			must(t, err)

			plain := message.NewMessage("evt-2", []byte("not JSON"))
			marked := message.NewMessage("evt-3", []byte("123"))
			marked.Metadata.Set(outbox.MetaEncoding, outbox.EncodingBytes)
			scalar := message.NewMessage("evt-4", []byte("123"))
			nul := message.NewMessage("evt-5", []byte(`"\u0000"`))
			must(t, pub.Publish("shop.events", full(), plain))
			must(t, pub.Publish("shop.events", marked, scalar, nul))
			must(t, pub.Publish("shop.events"))
			must(t, pub.Close())
			must(t, tx.Commit())

			want := []string{
				"evt-1|order.created|customer-7|order|42|acme|{\"region\":\"eu\"}|{\"traceparent\":\"00-ab\"}|{\"a\": \"x\\ny\",\n \"b\":1.0}|-",
				"evt-2|shop.events|-|-|-|-|-|-|-|not JSON",
				"evt-3|shop.events|-|-|-|-|-|-|-|123",
				"evt-4|shop.events|-|-|-|-|-|-|123|-",
				`evt-5|shop.events|-|-|-|-|-|-|-|"\u0000"`,
			}
			if got := contents(t, db); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A message that came through Outrider can be published again: nothing of it
// is lost or refused.
func TestMessagesOfOutriderCanBePublishedAgain(t *testing.T) {
	t.Parallel()
	row := &adapters.Row{
		ID: "evt-1", Type: "t", Group: "g", Tags: map[string]string{"k": "v"}, Headers: map[string]string{"h": "v"},
		Payload: []byte{0xff}, Binary: true, Position: 7,
	}
	db := open(t, outbox.SQLite)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	pub, err := outridersql.NewPublisher(tx, outridersql.Schema{Dialect: outbox.SQLite}, nil)
	must(t, err)
	must(t, pub.Publish("topic", adapters.NewMessage(row, "orders/07")))
	must(t, tx.Commit())
	want := "evt-1|t|g|-|-|-|{\"k\":\"v\"}|{\"h\":\"v\"}|-|\xff"
	if got := contents(t, db); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, outbox.PostgreSQL)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	pub, err := outridersql.NewPublisher(tx, outridersql.Schema{}, nil)
	must(t, err)
	must(t, pub.Publish("topic", full()))
	must(t, tx.Rollback())
	if got := contents(t, db); len(got) != 0 {
		t.Errorf("rows after the rollback: %q", got)
	}
}

func TestWrongMessagesAreRefusedWithAllProblems(t *testing.T) {
	t.Parallel()
	with := func(key, value string) *message.Message {
		msg := full()
		msg.Metadata.Set(key, value)
		return msg
	}
	nothing := message.NewMessage("", nil)
	for name, tt := range map[string]struct {
		topic string
		msg   *message.Message
		want  []string
	}{
		"nil":      {"t", nil, []string{"message 2 of 2", "is nil"}},
		"empty":    {"", nothing, []string{"type: is required", "id: is empty"}},
		"tags":     {"t", with(outbox.MetaTags, `["a"]`), []string{"outrider_tags", "JSON object of strings"}},
		"time":     {"t", with(outbox.MetaOccurredAt, "today"), []string{"outrider_occurred_at", "RFC 3339"}},
		"encoding": {"t", with(outbox.MetaEncoding, "gzip"), []string{"outrider_encoding", `must be "bytes" or absent`}},
		"unknown":  {"t", with("outrider_new", "x"), []string{`header "outrider_new"`}},
		"large":    {"t", message.NewMessage("evt", make([]byte, outbox.MaxPayloadBytes+1)), []string{"the limit is 1048576"}},
	} {
		_, err := outridersql.Schema{}.InsertQuery(tt.topic, message.Messages{full(), tt.msg})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in: %v", name, want, err)
			}
		}
	}
}

// A stock Publisher wakes a relay that sleeps, and leaves one alone that does not.
func TestStockPublisherWakesASleepingRelay(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	db := openAt(t, "pgx", url, postgresTable)
	relay, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { must(t, relay.Close(context.WithoutCancel(t.Context()))) }()
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := relay.Exec(t.Context(), query, args...)
		must(t, err)
	}
	// publish commits two messages and returns the first notification that
	// arrives after them; "none" is one of our own.
	publish := func(id string, notify bool) string {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		pub, err := outridersql.NewPublisher(tx, outridersql.Schema{Notify: notify}, nil)
		must(t, err)
		must(t, pub.Publish("topic", message.NewMessage(id, nil), message.NewMessage(id+"-b", nil)))
		must(t, tx.Commit())
		exec("SELECT pg_notify($1, 'none')", outbox.WakeChannel)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := relay.WaitForNotification(ctx)
		must(t, err)
		return n.Payload
	}
	exec("LISTEN " + outbox.WakeChannel)
	if got := publish("awake", true); got != "none" {
		t.Errorf("a relay that is awake was notified of %q", got)
	}
	exec("SELECT pg_advisory_lock(hashtextextended($1, $2))", outbox.DefaultTable, outbox.WakeNamespace) // it sleeps
	if got := publish("unasked", false); got != "none" {
		t.Errorf("notified of %q without Notify", got)
	}
	if got := publish("asleep", true); got != outbox.DefaultTable {
		t.Errorf("a relay that sleeps was notified of %q, want %q", got, outbox.DefaultTable)
	}
	if got := contents(t, db); len(got) != 6 {
		t.Errorf("%d rows, want 6: %q", len(got), got)
	}
}

func TestWrongSchemaAndNoTransaction(t *testing.T) {
	t.Parallel()
	if _, err := outridersql.NewPublisher(new(stdsql.Tx), outridersql.Schema{Dialect: outbox.SQLite, Notify: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "SQLite cannot notify") {
		t.Errorf("Notify on SQLite: %v", err)
	}
	if _, err := outridersql.NewPublisher(nil, outridersql.Schema{}, nil); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("nil transaction: %v", err)
	}
	bad := outridersql.Schema{Table: "a.b.c"}
	if _, err := outridersql.NewPublisher(new(stdsql.Tx), bad, nil); err == nil || !strings.Contains(err.Error(), "more than one dot") {
		t.Errorf("NewPublisher with a wrong table: %v", err)
	}
	if _, err := bad.InsertQuery("t", message.Messages{full()}); err == nil || !strings.Contains(err.Error(), "more than one dot") {
		t.Errorf("InsertQuery with a wrong table: %v", err)
	}
}

func TestASubscriberIsSentToOutrider(t *testing.T) {
	t.Parallel()
	var s wmsql.SchemaAdapter = outridersql.Schema{Dialect: outbox.SQLite}
	if q := s.SchemaInitializingQueries("t"); len(q) != 0 {
		t.Errorf("tables would be created: %v", q)
	}
	if l := s.SubscribeIsolationLevel(); l != stdsql.LevelDefault {
		t.Errorf("isolation level %v", l)
	}
	rows, err := open(t, outbox.SQLite).QueryContext(t.Context(), s.SelectQuery("t", "", nil).Query)
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	if !rows.Next() {
		t.Fatal("no row, so the Subscriber would wait in silence")
	}
	if _, err := s.UnmarshalMessage(rows); !errors.Is(err, outridersql.ErrPublishOnly) {
		t.Errorf("got %v", err)
	}
	must(t, rows.Err())
}

// A stock watermill-sql Publisher in the application's transaction; here with
// SQLite, in memory.
func ExampleSchema() {
	ctx := context.Background()
	db, err := stdsql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if _, err := db.ExecContext(ctx, sqliteTable+"; CREATE TABLE orders (id INTEGER, total INTEGER)"); err != nil {
		panic(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (42, 12)"); err != nil {
		panic(err)
	}
	publisher, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{
		SchemaAdapter: outridersql.Schema{Dialect: outbox.SQLite}, // the zero Schema is for PostgreSQL
	}, nil)
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(map[string]int{"order": 42, "total": 12})
	if err != nil {
		panic(err)
	}
	msg := message.NewMessage("0198c7f2-evt", payload)
	msg.Metadata.Set(outbox.MetaGroup, "customer-7")
	if err := publisher.Publish("order.created", msg); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}

	var row string
	err = db.QueryRowContext(ctx, "SELECT id || ' ' || type || ' ' || message_group || ' ' || payload FROM outrider_outbox").Scan(&row)
	fmt.Println(row, err)
	// Output: 0198c7f2-evt order.created customer-7 {"order":42,"total":12} <nil>
}
