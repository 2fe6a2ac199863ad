package logtable

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// TestInitAddsThePositionWithoutARewrite: the table keeps its file, rows from before are not read, and every role that inserts still can.
func TestInitAddsThePositionWithoutARewrite(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE "Out box" (id uuid DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text DEFAULT 't', payload jsonb);
		INSERT INTO "Out box" (payload) VALUES ('"before"')`)
	l := &logEnv{Env: e, cfg: Config{Layout: "debezium", Table: `"Out box"`}}
	pgtest.WantError(t, l.open().Check(e.Ctx), "run `outrider init`")
	file := func() (node int) {
		pgtest.Must(t, e.Pool.QueryRow(e.Ctx, `SELECT pg_relation_filenode('"Out box"')::bigint`).Scan(&node))
		return node
	}
	was := file()
	for i, want := range []string{"added the columns", "has what reading needs"} {
		said, err := Init(e.Ctx, e.Pool, l.cfg)
		pgtest.Must(t, err)
		if !strings.Contains(strings.Join(said, "\n"), want) || i > 0 && len(said) != 2 {
			t.Errorf("init says %q", said)
		}
	}
	if file() != was {
		t.Error("the table was written again")
	}
	role, _ := e.Role()
	e.Exec(`GRANT INSERT ON "Out box" TO ` + role)
	pgtest.Must(t, pgx.BeginFunc(e.Ctx, e.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(e.Ctx, "SET LOCAL ROLE "+role); err != nil {
			return err
		}
		_, err := tx.Exec(e.Ctx, `INSERT INTO "Out box" (payload) VALUES ('"after"')`)
		return err
	}))
	rows := e.Lanes(l.open(), adapters.StartBeginning, 10).All(t)
	if len(rows) != 1 || string(rows[0].Payload) != `"after"` {
		t.Errorf("rows %v, want the one written after init", rows)
	}
}

func TestPrintedStatementsAddThePosition(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb)`)
	l := &logEnv{Env: e, cfg: Config{Layout: "debezium", Table: "outbox"}}
	text, err := InitSQL(l.cfg)
	pgtest.Must(t, err)
	for statement := range strings.SplitSeq(text, ";\n") { // an index cannot be made with others
		e.Exec(statement)
	}
	pgtest.Must(t, l.open().Check(e.Ctx))
}

// TestColumnsOfACapturedTable: other names, columns as headers, and payloads that are NULL.
func TestColumnsOfACapturedTable(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE outbox (event uuid DEFAULT gen_random_uuid(), aggregatetype text DEFAULT 'order', aggregateid text, type text DEFAULT 'made', payload text,
		shop text, n int, at timestamptz)`)
	cfg := Config{Layout: "debezium", Table: "outbox", Columns: Columns{ID: "event", Group: "shop", OccurredAt: "at"},
		Headers: []layout.Header{{Name: "eventType", Column: "type"}, {Name: "n", Column: "n"}}}
	_, err := Init(e.Ctx, e.Pool, cfg)
	pgtest.Must(t, err)
	e.Exec(`INSERT INTO outbox (aggregateid, payload, shop, n, at) VALUES ('7', NULL, 'a', NULL, '2026-01-02 03:04:05+00'), ('8', '', 'b', 5, NULL)`)
	rows := e.Lanes((&logEnv{Env: e, cfg: cfg}).open(), adapters.StartBeginning, 10).All(t)
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		none := row.AggregateID == "7"
		if row.Err != nil || row.Type != "made" || row.AggregateType != "order" || row.Headers["eventType"] != "made" ||
			none != (row.Payload == nil) || none != (row.Group == "a") || none == row.OccurredAt.IsZero() || none == (row.Headers["n"] == "5") {
			t.Errorf("row %+v", row)
		}
	}
}

func TestDoctorSeesThatRowsAreDeletedAtOnce(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "debezium")
	finding := func(want adapters.Level) {
		t.Helper()
		// What another session did is in the statistics when it says so.
		e.Exec("SELECT pg_stat_force_next_flush()")
		for _, f := range e.log.Examine(e.Ctx) {
			if f.Subject == "deleted rows" {
				if f.Level != want {
					t.Errorf("%v: %s, want %v", f.Level, f.Text, want)
				}
				return
			}
		}
		t.Error("the doctor does not look for deleted rows")
	}
	finding(adapters.LevelOK)
	e.Exec(`BEGIN; INSERT INTO outbox (aggregateid, payload) SELECT 'o', '1' FROM generate_series(1, 100); DELETE FROM outbox; COMMIT`)
	finding(adapters.LevelWarning)
	e.Exec(`INSERT INTO outbox (aggregateid, payload) VALUES ('o', '1')`)
	finding(adapters.LevelOK)
}
