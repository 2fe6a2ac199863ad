package logtable

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql is what watermill-sql takes

	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// logEnv is a table of another shape in a database of its own, and a source on it.
type logEnv struct {
	*pgtest.Env
	log    *Source
	cfg    Config
	insert string // group, payload as JSON text
	last   string // the payload of the group's last row, by position
}

// logTables are the tables that the tests run on: by name, what makes them.
var logTables = map[string]func(*pgtest.Env) *logEnv{
	"watermill": func(e *pgtest.Env) *logEnv {
		makeTopic(e, "orders", wmsql.DefaultPostgreSQLSchema{})
		return &logEnv{Env: e, cfg: Config{Layout: "watermill", Topic: "orders", Metadata: Metadata{Group: "customer"}},
			insert: `INSERT INTO watermill_orders (uuid, payload, metadata, transaction_id)
				VALUES (gen_random_uuid(), $2::json, json_build_object('customer', $1::text), pg_current_xact_id())`,
			last: `SELECT payload FROM watermill_orders WHERE metadata->>'customer' = $1 ORDER BY "offset" DESC LIMIT 1`}
	},
	"custom": func(e *pgtest.Env) *logEnv {
		e.Exec(`CREATE SCHEMA "Shop"`)
		e.Exec(`CREATE TABLE "Shop"."Event Log" (
			"No" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Id" uuid NOT NULL DEFAULT gen_random_uuid(),
			kind text NOT NULL DEFAULT 'changed', "customer""s" integer, body jsonb,
			tx bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint, at timestamptz NOT NULL DEFAULT clock_timestamp())`)
		return &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: `"Shop"."Event Log"`,
			Columns: Columns{Position: "No", XID: "tx", ID: "Id", Payload: "body", Type: "kind", Group: `customer"s`, CreatedAt: "at"}},
			insert: `INSERT INTO "Shop"."Event Log" ("customer""s", body) VALUES (substr($1::text, 2)::int, $2::jsonb)`,
			last:   `SELECT body FROM "Shop"."Event Log" WHERE "customer""s" = substr($1::text, 2)::int ORDER BY "No" DESC LIMIT 1`}
	},
	"debezium": func(e *pgtest.Env) *logEnv {
		cfg := Config{Layout: "debezium", Table: "outbox", Columns: Columns{CreatedAt: "at"}}
		e.Exec(`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL DEFAULT 'order', aggregateid text NOT NULL,
			type text NOT NULL DEFAULT 'changed', payload jsonb, at timestamptz DEFAULT clock_timestamp());
			INSERT INTO outbox (aggregateid, payload) VALUES ('before', '0')`)
		if _, err := Init(e.Ctx, e.Pool, cfg); err != nil {
			e.T.Fatal(err)
		}
		e.Exec(`DO $$ DECLARE i regclass; BEGIN -- the tests make them
			FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid = 'outbox'::regclass AND NOT indisprimary LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END $$`)
		return &logEnv{Env: e, cfg: cfg, insert: "INSERT INTO outbox (aggregateid, payload) VALUES ($1, $2)",
			last: "SELECT payload FROM outbox WHERE aggregateid = $1 ORDER BY outrider_position DESC LIMIT 1"}
	},
}

// makeTopic has watermill-sql make the table of a topic.
func makeTopic(e *pgtest.Env, topic string, schema wmsql.DefaultPostgreSQLSchema) {
	e.T.Helper()
	for _, q := range schema.SchemaInitializingQueries(topic) {
		e.Exec(q.Query, q.Args...)
	}
}

// newLogEnv makes a table with the indexes that are wanted.
func newLogEnv(t testing.TB, name string) *logEnv {
	t.Helper()
	e := logTables[name](pgtest.New(t))
	e.makeIndexes()
	e.log = e.open()
	return e
}

// makeIndexes creates the indexes that Check asks for.
func (e *logEnv) makeIndexes() {
	e.T.Helper()
	err := e.open().Check(e.Ctx)
	if err == nil {
		e.T.Fatal("no index is missing, so the table shows nothing")
	}
	for _, s := range regexp.MustCompile(`CREATE .*`).FindAllString(err.Error(), -1) {
		e.Exec(s)
	}
}

// open returns a source on the table, which the test closes.
func (e *logEnv) open() *Source {
	e.T.Helper()
	cfg := e.cfg
	cfg.URL = e.URL
	src, err := New(e.Ctx, cfg)
	pgtest.Must(e.T, err)
	e.T.Cleanup(func() { pgtest.Must(e.T, src.Close()) })
	return src
}

// publish commits a row of a group by itself.
func (e *logEnv) publish(group, payload string) {
	e.T.Helper()
	e.Exec(e.insert, group, `"`+payload+`"`)
}

// writeVersion writes the next version of a group, as stressWriters do it.
func (e *logEnv) writeVersion(ctx context.Context, tx pgx.Tx, group int) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", group); err != nil {
		return err
	}
	name, version := fmt.Sprint("g", group), 0
	var last []byte
	switch err := tx.QueryRow(ctx, e.last, name).Scan(&last); {
	case err == nil:
		_, _ = fmt.Sscanf(string(last), `"%d"`, &version)
	case err != pgx.ErrNoRows: //nolint:errorlint // pgx returns it as it is
		return err
	}
	_, err := tx.Exec(ctx, e.insert, name, fmt.Sprintf(`"%d"`, version+1))
	return err
}

// stockPublish publishes to the topic orders through an unchanged watermill-sql Publisher, in one
// transaction of database/sql.
func stockPublish(ctx context.Context, db *sql.DB, schema wmsql.DefaultPostgreSQLSchema, messages ...*message.Message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	publisher, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: schema}, nil)
	if err != nil {
		return err
	}
	if err := publisher.Publish("orders", messages...); err != nil {
		return err
	}
	return tx.Commit()
}

// openStdlib opens a database as watermill-sql takes it.
func openStdlib(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, db.Close()) })
	return db
}
