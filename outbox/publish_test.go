package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// counter is a pgx tracer that keeps the statements.
type counter struct{ queries []string }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.queries = append(c.queries, data.SQL)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestPublishWritesManyInOneStatementInEveryModeOfPgx(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	db := openDB(t, "pgx", url)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		cfg, err := pgx.ParseConfig(url)
		must(t, err)
		seen := &counter{}
		cfg.DefaultQueryExecMode, cfg.Tracer = mode, seen
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) })

		before := len(rows(t, db, outbox.PostgreSQL))
		want := mixed(t, 500)
		tx, err := conn.Begin(t.Context())
		must(t, err)
		seen.queries = nil
		c, err := outbox.NewClient(outbox.ClientConfig{Notify: mode != pgx.QueryExecModeDescribeExec})
		must(t, err)
		must(t, c.Publish(t.Context(), tx, want[:460]...))
		for _, e := range want[460:] {
			must(t, c.Publish(t.Context(), tx, e))
		}
		if len(seen.queries) != 41 {
			t.Errorf("%v: %d statements in 41 calls, want one each", mode, len(seen.queries))
		}
		must(t, tx.Commit(t.Context()))
		compare(t, rows(t, db, outbox.PostgreSQL)[before:], want)
	}
}

func TestPublishWithDatabaseSQL(t *testing.T) {
	t.Parallel()
	for dialect, db := range bothDatabases(t) {
		t.Run(string(dialect), func(t *testing.T) {
			want := mixed(t, 500)
			inTx(t, db, func(tx *sql.Tx) {
				c := client(t, dialect)
				for _, e := range want[:30] { // one by one, in all shapes
					must(t, c.Publish(t.Context(), tx, e))
				}
				must(t, c.Publish(t.Context(), tx, want[30:]...))
				must(t, c.Publish(t.Context(), tx))
			})
			compare(t, rows(t, db, dialect), want)
		})
	}
}

func TestPublishKeepsTheOrderOfManyThousands(t *testing.T) {
	t.Parallel()
	for dialect, db := range bothDatabases(t) {
		t.Run(string(dialect), func(t *testing.T) {
			// More values than a statement has parameters, if there were one for each.
			n := map[outbox.Dialect]int{outbox.PostgreSQL: 7_000, outbox.SQLite: 3_500}[dialect]
			want := make([]outbox.Envelope, n)
			for i := range want {
				e, err := outbox.New("t").ID(fmt.Sprintf("%x", (i*7919)%n)).Group(strconv.Itoa(i % 97)).JSON(i).Build()
				must(t, err)
				want[i] = e
			}
			inTx(t, db, func(tx *sql.Tx) { must(t, client(t, dialect).Publish(t.Context(), tx, want...)) })
			compare(t, rows(t, db, dialect), want)
		})
	}
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	for dialect, db := range bothDatabases(t) {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		must(t, client(t, dialect).Publish(t.Context(), tx, event(t, "g"), event(t, "g")))
		must(t, tx.Rollback())
		if got := rows(t, db, dialect); len(got) != 0 {
			t.Errorf("%s: %d rows after a rollback", dialect, len(got))
		}
	}
}

func TestPublishInANestedTransaction(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	tx, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	nested, err := tx.Begin(t.Context())
	must(t, err)
	c := client(t, outbox.PostgreSQL)
	must(t, c.Publish(t.Context(), nested, event(t, "kept")))
	must(t, nested.Commit(t.Context()))
	nested, err = tx.Begin(t.Context())
	must(t, err)
	must(t, c.Publish(t.Context(), nested, event(t, "undone")))
	must(t, nested.Rollback(t.Context()))
	must(t, tx.Commit(t.Context()))

	var groups []string
	must(t, pool.QueryRow(t.Context(), "SELECT array_agg(message_group) FROM outrider_outbox").Scan(&groups))
	if !slices.Equal(groups, []string{"kept"}) {
		t.Errorf("groups %q, want what the savepoint kept", groups)
	}
}

func TestPublishWritesToTheNamedTable(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	execOn(t, url, `CREATE SCHEMA "App-1"`)
	execOn(t, url, fmt.Sprintf(postgresTable, `"App-1"."select"`))
	c, err := outbox.NewClient(outbox.ClientConfig{Table: "App-1.select"})
	must(t, err)
	db := openDB(t, "pgx", url)
	inTx(t, db, func(tx *sql.Tx) { must(t, c.Publish(t.Context(), tx, event(t, "g"))) })
	var n int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM "App-1"."select"`).Scan(&n))
	if n != 1 {
		t.Errorf("%d rows in the named table, want 1", n)
	}
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg  outbox.ClientConfig
		want string
	}{
		{outbox.ClientConfig{Table: "a.b.c"}, "more than one dot"},
		{outbox.ClientConfig{Table: ".outbox"}, "empty part"},
		{outbox.ClientConfig{Table: `a"; DROP TABLE x; --`}, "write the plain name"},
		{outbox.ClientConfig{Table: "a\x00b"}, "control character"},
		{outbox.ClientConfig{Table: strings.Repeat("t", 64)}, "63 bytes"},
		{outbox.ClientConfig{Dialect: outbox.SQLite, Notify: true}, "SQLite cannot notify"},
		{outbox.ClientConfig{Dialect: "oracle"}, "use outbox.PostgreSQL, outbox.SQLite or outbox.MySQL"},
	} {
		if _, err := outbox.NewClient(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
}

func TestInsertQueryIsOneTextForOneAndOneForMany(t *testing.T) {
	t.Parallel()
	for _, dialect := range []outbox.Dialect{outbox.PostgreSQL, outbox.SQLite} {
		c := client(t, dialect)
		texts := map[string]bool{}
		for _, n := range []int{1, 2, 1, 9} {
			query, args, err := c.InsertQuery(mixed(t, n)...)
			must(t, err)
			texts[query] = true
			for i, a := range args {
				if _, ok := a.(string); !ok && a != nil {
					t.Errorf("%s: argument %d of %d envelopes is a %T", dialect, i+1, n, a)
				}
			}
		}
		if want := map[outbox.Dialect]int{outbox.PostgreSQL: 2, outbox.SQLite: 1}; len(texts) != want[dialect] {
			t.Errorf("%s: %d texts, want %d", dialect, len(texts), want[dialect])
		}
	}
}

// mixed returns n envelopes of all shapes, with payloads that are easily damaged.
func mixed(t *testing.T, n int) []outbox.Envelope {
	t.Helper()
	out := make([]outbox.Envelope, n)
	for i := range out {
		b := outbox.New(fmt.Sprintf("type.%d", i))
		if i%2 == 0 {
			b.Group(fmt.Sprintf(`g"%d\,{}`, i%7)).Tenant("NULL").Aggregate("order", strconv.Itoa(i))
		}
		if i%3 == 0 {
			b.Tag("quote\"d", `back\slash`).Header("multi", "line\r\ntab").Header("json", `{"a":"\n"}`)
		}
		switch i % 5 {
		case 0:
			b.Bytes([]byte{0, 1, '\\', 'x', '"', 0xff})
		case 1:
			b.Bytes(nil)
		case 2:
			b.RawJSON([]byte("{\"z\" : \"a\\nb\\\\n\\\"\\u00e9\\ud83d\\ude00\" ,\n\t\"a\":1.50,\"a\":1e2}"))
		default:
			b.JSON(map[string]any{"text": "<é&\u2028'$1'>", "i": i})
		}
		e, err := b.Build()
		must(t, err)
		out[i] = e
	}
	return out
}

func bothDatabases(t *testing.T) map[outbox.Dialect]*sql.DB {
	t.Helper()
	return map[outbox.Dialect]*sql.DB{outbox.PostgreSQL: postgresDB(t), outbox.SQLite: sqliteDB(t)}
}

// compare checks that the rows are the envelopes, in their order.
func compare(t *testing.T, got []stored, want []outbox.Envelope) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if d := got[i].differs(want[i]); d != "" {
			t.Fatalf("row %d of %d: %s", i+1, len(want), d)
		}
	}
}

// Why CheckJSON refuses two kinds of escapes that are valid JSON: PostgreSQL
// stores them, and then fails whoever asks for another field of the payload.
func TestPostgresCannotReadPayloadsWithTheRefusedEscapes(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	for _, payload := range []string{`{"a":"\u0000","b":1}`, `{"a":"\ud800","b":1}`} {
		if outbox.CheckJSON([]byte(payload)) == nil {
			t.Errorf("%s is accepted", payload)
		}
		var text string
		must(t, pool.QueryRow(t.Context(), `SELECT $1::json::text`, payload).Scan(&text))
		if err := pool.QueryRow(t.Context(), `SELECT $1::json->>'b'`, payload).Scan(&text); err == nil {
			t.Errorf("%s could be read: CheckJSON need not refuse it", payload)
		}
	}
}
