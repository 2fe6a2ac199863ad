package outboxtable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a database with tables of all layouts.
type world struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: testenv.Postgres(t)}
	var err error
	w.pool, err = pgxpool.New(t.Context(), w.url)
	must(t, err)
	t.Cleanup(w.pool.Close)
	_, err = owntable.Init(t.Context(), w.pool, "")
	must(t, err)
	for _, preset := range layout.All() {
		if q := preset.Queue; q != nil && q.Definitions[layout.PostgreSQL].Columns != nil && !strings.HasSuffix(preset.Name, "-v2") {
			_, err = queuetable.Init(t.Context(), w.pool, *q, true, q.Tables...)
			must(t, err)
		}
	}
	for _, q := range (wmsql.DefaultPostgreSQLSchema{}).SchemaInitializingQueries("orders") {
		w.exec(q.Query)
	}
	return w
}

func (w *world) exec(sql string) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql)
	must(w.t, err)
}

// open returns a destination on a pool of its own.
func (w *world) open(cfg outboxtable.Config) *outboxtable.Destination {
	w.t.Helper()
	var err error
	cfg.Pool, err = postgres.Open(w.t.Context(), w.url, postgres.TLS{})
	must(w.t, err)
	d, err := outboxtable.New(cfg)
	must(w.t, err)
	w.t.Cleanup(func() { _ = d.Close() })
	return d
}

// rows are the rows of a table in the order of a column, without some columns.
func (w *world) rows(table, order string, without ...string) (out []map[string]any) {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), fmt.Sprintf("SELECT to_jsonb(t) FROM %s t ORDER BY %s", table, order))
	must(w.t, err)
	out, err = pgx.CollectRows(rows, pgx.RowTo[map[string]any])
	must(w.t, err)
	for _, row := range out {
		for _, c := range without {
			delete(row, c)
		}
	}
	return out
}

// order is a message about an order.
func order(id string, meta message.Metadata) *message.Message {
	msg := message.NewMessage(id, []byte(`{"b": 1,  "a": "ä"}`))
	msg.Metadata = message.Metadata{outbox.MetaType: "order.created", outbox.MetaPosition: "1", outbox.MetaLane: "r/1"}
	maps.Copy(msg.Metadata, meta)
	return msg
}

func tx(t *testing.T, w *world, f func(pgx.Tx) error) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), w.pool, f))
}

// TestARowIsThatOfTheTablesPublisher compares what the destination writes with what the publisher of each layout does.
func TestARowIsThatOfTheTablesPublisher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payload := order("", nil).Payload
	client := func(l string, build func(*outbox.Builder) *outbox.Builder) func(ctx context.Context, tx pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			c, err := outbox.NewClient(outbox.ClientConfig{Layout: l})
			must(t, err)
			e, err := build(outbox.New("order.created").ID("theirs").RawJSON(payload)).Build()
			must(t, err)
			return c.Publish(ctx, tx, e)
		}
	}
	for name, tt := range map[string]struct {
		cfg     outboxtable.Config
		table   string
		order   string
		without []string // columns with numbers and times
		ours    *message.Message
		theirs  func(ctx context.Context, tx pgx.Tx) error
	}{
		"outrider": {
			outboxtable.Config{}, "outrider_outbox", "position", []string{"position", "id", "xid", "created_at", "occurred_at"},
			order("ours", message.Metadata{outbox.MetaGroup: "g", outbox.MetaAggregateType: "Order", outbox.MetaAggregateID: "17", outbox.MetaTenant: "acme",
				outbox.MetaTags: `{"k":"v"}`, "x": "y", outbox.MetaOccurredAt: "2026-01-02T03:04:05.123456Z"}),
			client("", func(b *outbox.Builder) *outbox.Builder {
				return b.Group("g").Aggregate("Order", "17").Tenant("acme").Tag("k", "v").Header("x", "y")
			}),
		},
		"outbox-framework": {
			outboxtable.Config{Layout: "outbox-framework"}, "outbox_event", "created_at", []string{"event_id", "available_at", "created_at"},
			order("ours", message.Metadata{outbox.MetaGroup: "Order:17", outbox.MetaAggregateType: "Order", outbox.MetaAggregateID: "17", outbox.MetaTenant: "acme", "x": "y",
				outbox.MetaOccurredAt: "2024-02-29T12:00:00Z"}),
			client("outbox-framework", func(b *outbox.Builder) *outbox.Builder {
				return b.Aggregate("Order", "17").Tenant("acme").Header("x", "y").OccurredAt(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC))
			}),
		},
		"flowcatalyst": {
			outboxtable.Config{Layout: "flowcatalyst"}, "outbox_dispatch_jobs", "created_at", []string{"id", "created_at"},
			order("0HZXEQ5Y8JY5Z", message.Metadata{outbox.MetaKind: "DISPATCH_JOB", outbox.MetaGroup: "DISPATCH_JOB:g"}),
			func(ctx context.Context, tx pgx.Tx) error {
				c, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{})
				must(t, err)
				_, err = c.Publish(ctx, tx, outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, Group: "g", Payload: payload})
				return err
			},
		},
		"talkie": {
			outboxtable.Config{Layout: "talkie"}, "outbox", "id", []string{"id", "created_at", "next_attempt_at", "idempotency_key"},
			order("ours", message.Metadata{outbox.MetaGroup: "g", "x-correlation-id": "0190b9f2-7c7c-7000-8000-000000000001"}),
			func(ctx context.Context, tx pgx.Tx) error {
				c, err := outbox.NewTalkie(outbox.TalkieConfig{})
				must(t, err)
				_, err = c.Publish(ctx, tx, outbox.TalkieMessage{Topic: "order.created", Payload: payload, Key: "g",
					JobID: "0190b9f2-7c7c-7000-8000-000000000001", IdempotencyKey: "theirs"})
				return err
			},
		},
		"watermill": {
			outboxtable.Config{Layout: "watermill", Topic: "orders"}, "watermill_orders", `"offset"`, []string{"uuid", "offset", "created_at", "transaction_id"},
			order("ours", message.Metadata{"x": "y"}),
			func(context.Context, pgx.Tx) error {
				db := stdlib.OpenDBFromPool(w.pool)
				defer func() { _ = db.Close() }()
				p, err := wmsql.NewPublisher(db, wmsql.PublisherConfig{SchemaAdapter: wmsql.DefaultPostgreSQLSchema{}}, nil)
				must(t, err)
				msg := message.NewMessage("theirs", payload)
				msg.Metadata = message.Metadata{"x": "y", outbox.MetaType: "order.created"}
				return p.Publish("orders", msg)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx(t, w, func(tx pgx.Tx) error { return tt.theirs(t.Context(), tx) })
			d := w.open(tt.cfg)
			must(t, d.Check(t.Context()))
			if errs := d.Deliver(t.Context(), "", []*message.Message{tt.ours}); errs != nil {
				t.Fatal(errs)
			}
			rows := w.rows(tt.table, tt.order, tt.without...)
			if len(rows) != 2 || !reflect.DeepEqual(rows[0], rows[1]) {
				theirs, _ := json.Marshal(rows[:1])
				ours, _ := json.Marshal(rows[1:])
				t.Errorf("the publisher writes\n%s\nand the destination\n%s", theirs, ours)
			}
		})
	}
}

// TestARepeatedMessageIsWrittenOnceWhereIDsAreUnique delivers each message twice to tables of every layout.
func TestARepeatedMessageIsWrittenOnceWhereIDsAreUnique(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := map[string]string{"flowcatalyst-v2": "fc_messages", "yantra-v2": "yantra_messages"} // Yantra's first table has their name
	for name, table := range other {
		_, err := queuetable.Init(t.Context(), w.pool, *layout.Find(name).Queue, true, layout.Table{Name: table})
		must(t, err)
	}
	other["debezium"] = "debezium_events" // "outbox" is Talkie's
	w.exec(`CREATE TABLE debezium_events (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb)`)
	_, err := logtable.Init(t.Context(), w.pool, logtable.Config{Layout: "debezium", Table: other["debezium"]})
	must(t, err)
	layouts := []string{outboxtable.Own}
	for _, preset := range layout.All() {
		if preset.Log != nil && !preset.Log.Numbered || preset.Queue != nil && preset.Queue.Definitions[layout.PostgreSQL].Columns != nil {
			layouts = append(layouts, preset.Name)
		}
	}
	for _, name := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, group := outboxtable.Config{Layout: name, Topic: "orders", Table: other[name]}, "g"
			if name == "yantra-v2" {
				group = "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c12" // of a node execution
			}
			d := w.open(cfg)
			must(t, d.Check(t.Context()))
			var batch []*message.Message
			for i := range 3 {
				id := fmt.Sprintf("0190b9f2-7c7c-7000-8000-00000000000%d", i)
				if strings.HasPrefix(name, "flowcatalyst") {
					id = fmt.Sprintf("0HZXEQ5Y8JY5%d", i)
				}
				batch = append(batch, order(id, message.Metadata{outbox.MetaGroup: group, outbox.MetaAggregateType: "Order", outbox.MetaAggregateID: "g"}))
			}
			batch = append(batch, batch[0]) // also within one statement
			unique := int64(4)
			for range 2 {
				if errs := d.Deliver(t.Context(), "", batch); errs != nil {
					t.Fatal(errs)
				}
			}
			kept := name == outboxtable.Own || name == "watermill"
			if want := map[bool]int64{true: 0, false: 2*unique - 3}[kept]; d.Duplicates() != want {
				t.Errorf("%d duplicates are counted, want %d", d.Duplicates(), want)
			}
		})
	}
}

// TestAnIndexThatIsNewRecognisesRepeats makes the ids of Outrider's own table unique while the destination is at work.
func TestAnIndexThatIsNewRecognisesRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(outboxtable.Config{})
	deliver := func(ids ...string) {
		t.Helper()
		var batch []*message.Message
		for _, id := range ids {
			batch = append(batch, order(id, nil))
		}
		if errs := d.Deliver(t.Context(), "", batch); errs != nil {
			t.Fatal(errs)
		}
	}
	deliver("a")
	w.exec("CREATE UNIQUE INDEX once ON outrider_outbox (id)")
	deliver("a")
	deliver("b", "a")
	w.exec("DROP INDEX once")
	if errs := d.Deliver(t.Context(), "", []*message.Message{order("b", nil)}); len(errs) != 1 || outbox.KindOf(errs[0]) != outbox.KindUnavailable {
		t.Errorf("an index that is gone: %v, want that the message waits", errs)
	}
	deliver("b")
	if rows := len(w.rows("outrider_outbox", "position")); rows != 3 || d.Duplicates() != 2 {
		t.Errorf("%d rows and %d duplicates, want 3 and 2", rows, d.Duplicates())
	}
}

// TestARefusedRowIsAloneAtFault has a constraint, a trigger and the layout itself refuse rows.
func TestARefusedRowIsAloneAtFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`ALTER TABLE outbox_event ADD CHECK (event_type <> 'bad')`)
	w.exec(`CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.event_type = 'worse' THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$`)
	w.exec(`CREATE TRIGGER not_now BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION not_now()`)
	d := w.open(outboxtable.Config{Layout: "outbox-framework"})
	want := map[int]outbox.Kind{}
	var batch []*message.Message
	for i := range 40 {
		msg := order(fmt.Sprint("e", i), message.Metadata{outbox.MetaGroup: fmt.Sprint("A:", i), outbox.MetaAggregateType: "A", outbox.MetaAggregateID: strconv.Itoa(i)})
		switch i {
		case 3:
			msg.Metadata[outbox.MetaType], want[i] = "bad", outbox.KindPermanent
		case 14:
			msg.Metadata[outbox.MetaType], want[i] = "worse", outbox.KindTransient
		case 15:
			msg.UUID, want[i] = strings.Repeat("x", 37), outbox.KindPermanent
		case 16:
			msg.Payload, want[i] = []byte{0xff}, outbox.KindPermanent
		case 17:
			msg.Metadata[outbox.MetaGroup], want[i] = "other", outbox.KindPermanent
		}
		batch = append(batch, msg)
	}
	errs := d.Deliver(t.Context(), "", batch)
	for i := range batch {
		kind, bad := want[i]
		switch {
		case errs == nil, bad != (errs[i] != nil):
			t.Fatalf("message %d: %v, want an error: %v", i, errs, bad)
		case bad && outbox.KindOf(errs[i]) != kind:
			t.Errorf("message %d: %v is %v, want %v", i, errs[i], outbox.KindOf(errs[i]), kind)
		}
	}
	if rows := len(w.rows("outbox_event", "created_at")); rows != 35 {
		t.Errorf("%d rows, want 35", rows)
	}
}

// TestMessagesWaitForTheirTable: a table that is missing, or of another shape, is no message's fault.
func TestMessagesWaitForTheirTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(outboxtable.Config{Table: "later"})
	waits := func(fragment string) {
		t.Helper()
		errs := d.Deliver(t.Context(), "", []*message.Message{order("a", nil)})
		if len(errs) != 1 || outbox.KindOf(errs[0]) != outbox.KindUnavailable || !strings.Contains(errs[0].Error(), fragment) {
			t.Errorf("%v, want that the message waits, and %q", errs, fragment)
		}
		if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), fragment) {
			t.Errorf("Check: %v, want %q", err, fragment)
		}
	}
	waits(`"later"`)
	w.exec("CREATE TABLE later (id text, type text, number int NOT NULL)")
	waits(`it has no column "aggregate_id"`)
	waits(`its column "number" needs a value`)
	w.exec("DROP TABLE later")
	_, err := owntable.Init(t.Context(), w.pool, "later")
	must(t, err)
	must(t, d.Check(t.Context()))
	if errs := d.Deliver(t.Context(), "", []*message.Message{order("a", nil)}); errs != nil {
		t.Fatal(errs)
	}
	w.exec("ALTER TABLE later RENAME TO gone") // while it is known
	waits(`"later"`)
	w.exec("ALTER TABLE gone RENAME TO later")
	if errs := d.Deliver(t.Context(), "", []*message.Message{order("b", nil)}); errs != nil {
		t.Fatal(errs)
	}
}

// TestTheOrderOfABatchIsThatOfTheTable writes more rows than microseconds pass.
func TestTheOrderOfABatchIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(outboxtable.Config{Layout: "outbox-framework"})
	for batch := range 3 {
		var msgs []*message.Message
		for i := range 500 {
			msgs = append(msgs, order(fmt.Sprintf("%02d-%03d", 9-batch, 999-i), message.Metadata{outbox.MetaGroup: "g"})) // ids descend
		}
		if errs := d.Deliver(t.Context(), "", msgs); errs != nil {
			t.Fatal(errs)
		}
	}
	last := "~"
	for _, row := range w.rows("outbox_event", "created_at, event_id") {
		id := fmt.Sprint(row["event_id"])
		if id >= last {
			t.Fatalf("%s is behind %s", id, last)
		}
		last = id
	}
}

// TestDeliveriesWaitForNoConnectionOfTheirOwn has more deliveries at a time than the pool has connections, before the
// table is known: each has a transaction, and then looks at the table.
func TestDeliveriesWaitForNoConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool, err := postgres.Open(t.Context(), w.url, postgres.TLS{})
	must(t, err)
	conns := int(pool.Config().MaxConns)
	d, err := outboxtable.New(outboxtable.Config{Pool: pool})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	var txs []pgx.Tx
	for range conns {
		tx, err := pool.Begin(t.Context())
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		txs = append(txs, tx)
	}
	for i, tx := range txs {
		if _, errs := d.DeliverTx(t.Context(), tx, "", []*message.Message{order(strconv.Itoa(i), nil)}); errs != nil {
			t.Fatal(errs)
		}
	}
}

// TestTemplatesChangeWhatIsWritten gives the rows of one database other ids, types and groups.
func TestTemplatesChangeWhatIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(outboxtable.Config{Layout: "talkie", ID: "shop-{{.ID}}", Type: "orders", Group: "shop-{{.Group}}"})
	grouped, single := order("17", message.Metadata{outbox.MetaGroup: "g"}), order("18", nil)
	if errs := d.Deliver(t.Context(), "", []*message.Message{grouped, single}); errs != nil {
		t.Fatal(errs)
	}
	rows := w.rows("outbox", "id")
	if len(rows) != 2 || rows[0]["idempotency_key"] != "shop-17" || rows[0]["topic"] != "orders" || rows[0]["key"] != "shop-g" || rows[1]["key"] != nil {
		t.Errorf("%v", rows)
	}
	if grouped.UUID != "17" || grouped.Metadata[outbox.MetaGroup] != "g" {
		t.Errorf("the message itself was changed: %v", grouped)
	}
}
