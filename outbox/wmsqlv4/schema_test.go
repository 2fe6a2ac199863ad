package wmsqlv4_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"reflect"
	"strings"
	"testing"

	v3 "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	v4 "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/wmsql"
	"github.com/outriderhq/outrider/outbox/wmsqlv4"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func messages() message.Messages {
	full := message.NewMessage("evt-1", []byte(`{"order": 42}`))
	full.Metadata = message.Metadata{outbox.MetaType: "order.created", outbox.MetaGroup: "customer-7", outbox.MetaTags: `{"region":"eu"}`,
		outbox.MetaPosition: "9", "traceparent": "00-ab"}
	out := message.Messages{full, message.NewMessage("evt-2", []byte{0xff, 0}), message.NewMessage("evt-3", nil)}
	for _, msg := range out {
		msg.Metadata.Set(outbox.MetaOccurredAt, "2026-01-02T15:04:05.123456Z") // otherwise: now
	}
	return out
}

// Both versions write the same statement, and refuse the same messages in the same words.
func TestBothVersionsWriteTheSame(t *testing.T) {
	bad := message.NewMessage("evt-4", nil)
	bad.Metadata.Set(outbox.MetaTags, "[]")
	for name, msgs := range map[string]message.Messages{"good": messages(), "bad": {bad}, "nil": {nil}} {
		for _, s := range []wmsqlv4.Schema{{}, {Table: "app.events", Notify: true}, {Dialect: outbox.SQLite}, {Table: "a.b.c"}} {
			got, gotErr := s.InsertQuery(v4.InsertQueryParams{Topic: "orders", Msgs: msgs})
			want, wantErr := wmsql.Schema{Table: s.Table, Dialect: s.Dialect, Notify: s.Notify}.InsertQuery("orders", msgs)
			if !reflect.DeepEqual(v3.Query{Query: got.Query, Args: got.Args}, want) || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
				t.Errorf("%s, %+v:\n%v %v\nwant\n%v %v", name, s, got, gotErr, want, wantErr)
			}
		}
	}
}

// A Publisher on a transaction of pgx, or of database/sql, commits and rolls back with what the application writes.
func TestAPublisherJoinsTheTransaction(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testenv.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = owntable.Init(t.Context(), pool, "")
	must(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE orders (id int)")
	must(t, err)
	for _, end := range []struct {
		name string
		of   func(pgx.Tx, context.Context) error
		want int
	}{{"rollback", pgx.Tx.Rollback, 0}, {"commit", pgx.Tx.Commit, 3}} {
		tx, err := pool.Begin(t.Context())
		must(t, err)
		pub, err := wmsqlv4.NewPgxPublisher(tx, wmsqlv4.Schema{}, nil)
		must(t, err)
		must(t, pub.Publish("orders", messages()...))
		_, err = tx.Exec(t.Context(), "INSERT INTO orders VALUES (42)")
		must(t, err)
		must(t, end.of(tx, t.Context()))
		var n int
		must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM outrider_outbox, orders").Scan(&n))
		if n != end.want {
			t.Errorf("%d rows after a %s, want %d", n, end.name, end.want)
		}
	}
}

func TestMistakesOfTheProgram(t *testing.T) {
	if _, err := wmsqlv4.NewPublisher(nil, wmsqlv4.Schema{}, nil); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("nil transaction: %v", err)
	}
	if _, err := wmsqlv4.NewPgxPublisher(nil, wmsqlv4.Schema{}, nil); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("nil transaction of pgx: %v", err)
	}
	if _, err := wmsqlv4.NewPublisher(new(stdsql.Tx), wmsqlv4.Schema{Table: "a.b.c"}, nil); err == nil || !strings.Contains(err.Error(), "more than one dot") {
		t.Errorf("wrong table: %v", err)
	}
	var s v4.SchemaAdapter = wmsqlv4.Schema{}
	if _, err := s.SelectQuery(v4.SelectQueryParams{Topic: "t"}); !errors.Is(err, wmsqlv4.ErrPublishOnly) {
		t.Errorf("a Subscriber selects: %v", err)
	}
	if _, err := s.UnmarshalMessage(v4.UnmarshalMessageParams{}); !errors.Is(err, wmsqlv4.ErrPublishOnly) {
		t.Errorf("a Subscriber reads: %v", err)
	}
	if q, err := s.SchemaInitializingQueries(v4.SchemaInitializingQueriesParams{Topic: "t"}); len(q) != 0 || err != nil {
		t.Errorf("tables would be created: %v, %v", q, err)
	}
}
