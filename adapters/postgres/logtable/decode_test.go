package logtable

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// TestLogRowsOfAStockTable: what becomes of metadata that a stock Publisher
// wrote, with keys of the application's and with none.
func TestLogRowsOfAStockTable(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	makeTopic(e, "orders", wmsql.DefaultPostgreSQLSchema{})
	l := &logEnv{Env: e, cfg: Config{Layout: "watermill", Topic: "orders",
		Metadata: Metadata{Type: "event", Group: "customer", Tenant: "tenant", AggregateType: "kind", AggregateID: "order"}}}
	l.makeIndexes()
	db := openStdlib(t, e.URL)
	plain := message.NewMessage("plain", []byte(`{"a":  1}`))
	plain.Metadata = nil // the Publisher writes null
	keys := message.NewMessage("keys", []byte("2"))
	keys.Metadata = message.Metadata{"event": "order.created", "customer": "c1", "tenant": "t1", "kind": "order", "order": "o1", "trace": "x"}
	ours := message.NewMessage("ours", []byte("3"))
	ours.Metadata = message.Metadata{outbox.MetaType: "ours", outbox.MetaGroup: "c2", outbox.MetaLane: "r/01", "customer": "c3"}
	pgtest.Must(t, stockPublish(e.Ctx, db, wmsql.DefaultPostgreSQLSchema{}, plain, keys, ours))

	rows := map[string]*adapters.Row{}
	for _, row := range e.Lanes(l.open(), adapters.StartBeginning, 10).All(t) {
		pgtest.Must(t, row.Err)
		if row.CreatedAt.IsZero() || row.Binary {
			t.Errorf("%s: created at %v, binary %t", row.ID, row.CreatedAt, row.Binary)
		}
		rows[row.ID] = row
	}
	if r := rows["plain"]; r.Type != "orders" || r.Group != "" || len(r.Headers) != 0 || string(r.Payload) != `{"a":  1}` {
		t.Errorf("without metadata: %+v", r)
	}
	if r := rows["keys"]; r.Type != "order.created" || r.Group != "c1" || r.Tenant != "t1" || r.AggregateType != "order" ||
		r.AggregateID != "o1" || !maps.Equal(r.Headers, keys.Metadata) {
		t.Errorf("with keys: %+v", r)
	}
	if r := rows["ours"]; r.Type != "ours" || r.Group != "c3" || !maps.Equal(r.Headers, map[string]string{"customer": "c3"}) {
		t.Errorf("with our keys: %+v", r)
	}
}

// TestLogRowsOfCrablet: ids are made of the position, and tags of an array, in which a key may come more than once.
func TestLogRowsOfCrablet(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE "My Events" (type varchar(64) NOT NULL, tags text[] NOT NULL, data json NOT NULL, transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    position bigserial PRIMARY KEY, occurred_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON "My Events" (transaction_id, position);
INSERT INTO "My Events" (type, tags, data) VALUES
    ('Moved', ARRAY['wallet_id=1', 'wallet_id=2', 'wallet_id=1', 'empty=', 'bare', 'a=b=c', NULL, 'q="x"'], '{"n":  1}'), ('Opened', '{}', '2'),
    ('TooMany', ARRAY(SELECT 't' || i || '=1' FROM generate_series(1, 1001) i), '3'), ('TooLarge', ARRAY[repeat('x', 2000000)], '4')`)
	l := &logEnv{Env: e, cfg: Config{Layout: "crablet", Table: `"My Events"`}}
	src := l.open()
	pgtest.Must(t, src.Check(e.Ctx))
	rows := map[string]*adapters.Row{}
	for _, row := range e.Lanes(src, adapters.StartBeginning, 10).All(t) {
		rows[row.ID] = row
	}
	want := map[string]string{"wallet_id": "1", "wallet_id=2": "", "empty": "", "bare": "", "a": "b=c", "q": `"x"`}
	if r := rows["My Events:1"]; r == nil || r.Err != nil || !maps.Equal(r.Tags, want) || string(r.Payload) != `{"n":  1}` || r.Type != "Moved" || r.OccurredAt.IsZero() {
		t.Errorf("with tags: %+v", r)
	}
	if r := rows["My Events:2"]; r == nil || r.Err != nil || len(r.Tags) != 0 {
		t.Errorf("without tags: %+v", r)
	}
	for _, id := range []string{"My Events:3", "My Events:4"} {
		if r := rows[id]; r == nil || !errors.Is(r.Err, adapters.ErrTooLarge) {
			t.Errorf("with too many tags: %+v", r)
		}
	}
	for id, n := range map[string]int{"My Events:2": 1, "My Events:99": 0, "2": 0, "events:2": 0} {
		if found, err := src.Find(e.Ctx, id, 10); err != nil || len(found.Rows) != n {
			t.Errorf("%s is found %d times, want %d (%v)", id, len(found.Rows), n, err)
		}
	}
}

// TestLogRowsOfCrabletV2: the columns that say which request and which event led to an event travel as headers, and a table without them is refused.
func TestLogRowsOfCrabletV2(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE crablet_events (type text NOT NULL, tags text[] NOT NULL, data jsonb NOT NULL, transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    position bigserial PRIMARY KEY, occurred_at timestamptz NOT NULL DEFAULT now(), correlation_id uuid, causation_id bigint);
CREATE INDEX ON crablet_events (transaction_id, position);
INSERT INTO crablet_events (type, tags, data, correlation_id, causation_id) VALUES
    ('Moved', ARRAY['wallet_id=1'], '{"n": 1}', '0190d5a6-7f3c-7a52-9e0b-5b8b1c2d3e4f', 41), ('Opened', '{}', '2', NULL, NULL), ('Closed', '{}', '3', NULL, 7)`)
	l := &logEnv{Env: e, cfg: Config{Layout: "crablet-v2", Table: "crablet_events"}}
	src := l.open()
	pgtest.Must(t, src.Check(e.Ctx))
	got := map[string]map[string]string{}
	for _, row := range e.Lanes(src, adapters.StartBeginning, 10).All(t) {
		if row.Err != nil {
			t.Errorf("%s: %v", row.ID, row.Err)
		}
		got[row.ID] = row.Headers
	}
	for id, want := range map[string]map[string]string{
		"crablet_events:1": {"correlation-id": "0190d5a6-7f3c-7a52-9e0b-5b8b1c2d3e4f", "causation-id": "41"},
		"crablet_events:2": {}, "crablet_events:3": {"causation-id": "7"},
	} {
		if headers, ok := got[id]; !ok || !maps.Equal(headers, want) {
			t.Errorf("%s has headers %v, want %v", id, headers, want)
		}
	}
	e.Exec("ALTER TABLE crablet_events DROP COLUMN causation_id")
	pgtest.WantError(t, src.Check(e.Ctx), `no column "causation_id" for the header causation-id`)
}

// TestLogRowsOfOddTables: types as they are found, constants, and rows that
// cannot be decoded, which stop nothing.
func TestLogRowsOfOddTables(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE odd (n smallint GENERATED ALWAYS AS IDENTITY UNIQUE, id bigint, body text, who uuid, extra jsonb, at timestamp,
		xid xid8 NOT NULL DEFAULT pg_current_xact_id())`)
	l := &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: "public.odd",
		Columns:  Columns{Position: "n", XID: "xid", ID: "id", Payload: "body", Type: "=odd", Group: "who", Headers: "extra", OccurredAt: "at", AggregateType: "=thing"},
		Metadata: Metadata{AggregateID: "thing", Tenant: "shop"}}}
	l.makeIndexes()
	e.Exec(`INSERT INTO odd (id, body, who, extra, at) VALUES
		(1, '{"a": 1}', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '{"thing": 7, "shop": null, "deep": {"x": [1]}}', '2024-01-02 03:04:05'),
		(2, 'plain text', NULL, '{}', 'infinity'),
		(3, DEFAULT, NULL, '[1]', NULL)`)
	e.Exec("INSERT INTO odd (body) VALUES ('{}')")
	rows := e.Lanes(l.open(), adapters.StartBeginning, 10).All(t)
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	byPosition := map[int64]*adapters.Row{}
	for _, row := range rows {
		byPosition[row.Position] = row
	}
	r := byPosition[1]
	if fmt.Sprint(r.ID, r.Type, r.AggregateType, r.AggregateID, r.Tenant, r.Group) != "1oddthing76ba7b810-9dad-11d1-80b4-00c04fd430c8" ||
		r.Binary || r.Err != nil || r.OccurredAt.Year() != 2024 || r.Headers["deep"] != `{"x": [1]}` {
		t.Errorf("the first row is %+v", r)
	}
	if r := byPosition[2]; !r.Binary || string(r.Payload) != "plain text" || r.Err != nil || !r.OccurredAt.IsZero() {
		t.Errorf("text that is no JSON is %+v", r)
	}
	pgtest.WantError(t, byPosition[3].Err, "body", "is null", "extra", "not a JSON object")
	pgtest.WantError(t, byPosition[4].Err, "column id", "is empty")
	_, err := l.open().Start(e.Ctx, adapters.Start{Kind: adapters.StartTime})
	pgtest.WantError(t, err, "created_at")
}

// TestG2_TooManyHeadersKeepTheGroup: a row of which there is too much metadata is dead,
// and in its group: that is how an operator finds it, and a redrive keeps the order.
// What is too long to be read at all has no group.
func TestG2_TooManyHeadersKeepTheGroup(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	makeTopic(e, "orders", wmsql.DefaultPostgreSQLSchema{})
	l := &logEnv{Env: e, cfg: Config{Layout: "watermill", Topic: "orders", Metadata: Metadata{Group: "customer", Tenant: "shop"}}}
	l.makeIndexes()
	many, long := message.NewMessage("many", []byte("1")), message.NewMessage("long", []byte("1"))
	for i := range adapters.MaxRowPairs {
		many.Metadata[fmt.Sprint("k", i)] = "v"
	}
	many.Metadata["customer"], many.Metadata["shop"] = "c1", "s1"
	long.Metadata = message.Metadata{"customer": "c2", "note": strings.Repeat("x", adapters.MaxRowMetadataBytes)}
	pgtest.Must(t, stockPublish(e.Ctx, openStdlib(t, e.URL), wmsql.DefaultPostgreSQLSchema{}, many, long))
	rows := e.Lanes(l.open(), adapters.StartBeginning, 10).All(t)
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for _, row := range rows {
		pgtest.WantError(t, row.Err, "metadata", "too large")
		want := map[string]string{"many": "c1 s1", "long": " "}[row.ID]
		if got := row.Group + " " + row.Tenant; got != want || row.Slot != adapters.SlotOf(row.Group, row.ID) || len(row.Headers) > 2 {
			t.Errorf("%s: group and tenant %q, slot %d, headers %v", row.ID, got, row.Slot, row.Headers)
		}
	}
}

// A row is found by an id of any type, as the event says it.
func TestLogRowsAreFoundByIdsOfEachType(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec("CREATE DOMAIN code AS char(6)")
	for typ, id := range map[string]string{"char(36)": "0b1d", "code": "abc", "bit(8)": "10101010", "varchar(5)": "abcde", "bigint": "17", "bytea": `\x00ff`} {
		e.Exec("DROP TABLE IF EXISTS events; CREATE TABLE events (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(), " +
			"id " + typ + " UNIQUE, body json NOT NULL DEFAULT '{}', grp " + typ + "); CREATE INDEX ON events (tx, no)")
		e.Exec("INSERT INTO events (id, grp) SELECT v::"+typ+", v::"+typ+" FROM (SELECT $1::text AS v) v", id)
		l := &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: "events", Columns: Columns{Position: "no", XID: "tx", ID: "id", Payload: "body", Type: "=k", Group: "grp"}}}
		src := l.open()
		pgtest.Must(t, src.Check(e.Ctx))
		rows := e.Lanes(src, adapters.StartBeginning, 10).All(t)
		if len(rows) != 1 || rows[0].ID != id || rows[0].Group != id {
			t.Fatalf("%s: read %+v", typ, rows)
		}
		if found, err := src.Find(e.Ctx, id, 10); err != nil || len(found.Rows) != 1 {
			t.Errorf("%s: found %+v, %v", typ, found.Rows, err)
		}
	}
}
