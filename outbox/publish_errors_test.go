package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/outbox"
)

func TestNoTransactionIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	pool, db, lite := postgresPool(t), postgresDB(t), sqliteDB(t)
	pooled, err := pool.Acquire(t.Context())
	must(t, err)
	defer pooled.Release()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	endedPgx, err := pool.Begin(t.Context())
	must(t, err)
	must(t, endedPgx.Commit(t.Context()))
	endedSQL, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, endedSQL.Rollback())
	endedLite, err := lite.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, endedLite.Commit())

	for name, tt := range map[string]struct {
		tx      any
		dialect outbox.Dialect
		want    string
	}{
		"nil":               {nil, outbox.PostgreSQL, "is nil"},
		"nil *sql.Tx":       {(*sql.Tx)(nil), outbox.PostgreSQL, "is nil"},
		"pool":              {pool, outbox.PostgreSQL, "*pgxpool.Pool is not a transaction"},
		"pooled connection": {pooled, outbox.PostgreSQL, "*pgxpool.Conn is not"},
		"pgx connection":    {pooled.Conn(), outbox.PostgreSQL, "*pgx.Conn is not"},
		"*sql.DB":           {db, outbox.PostgreSQL, "*sql.DB is not"},
		"*sql.Conn":         {conn, outbox.PostgreSQL, "*sql.Conn is not"},
		"SQLite *sql.DB":    {lite, outbox.SQLite, "*sql.DB is not"},
		"anything":          {"tx", outbox.SQLite, "string is not"},
		"ended pgx.Tx":      {endedPgx, outbox.PostgreSQL, "has ended already"},
		"ended *sql.Tx":     {endedSQL, outbox.PostgreSQL, "has ended already"},
		"ended SQLite tx":   {endedLite, outbox.SQLite, "has ended already"},
	} {
		err := client(t, tt.dialect).Publish(t.Context(), tt.tx, event(t, "g"))
		if !errors.Is(err, outbox.ErrNoTransaction) || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), "publish inside your transaction") {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		if !strings.HasPrefix(name, "ended SQLite") {
			if err := outbox.Lock(t.Context(), tt.tx, "g"); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("%s: Lock returned %v", name, err)
			}
		}
	}
	if got := rows(t, db, outbox.PostgreSQL); len(got) != 0 {
		t.Errorf("%d rows were written", len(got))
	}
}

func TestPublishRefusesWhatIsNoEnvelopeOrTooMuch(t *testing.T) {
	t.Parallel()
	full, err := outbox.New("a").Bytes(make([]byte, outbox.MaxPayloadBytes)).Build()
	must(t, err)
	many := make([]outbox.Envelope, outbox.MaxPublishBytes/outbox.MaxPayloadBytes+1)
	for i := range many {
		many[i] = full
	}
	db := sqliteDB(t)
	inTx(t, db, func(tx *sql.Tx) {
		c := client(t, outbox.SQLite)
		err := c.Publish(t.Context(), tx, event(t, "g"), outbox.Envelope{})
		if err == nil || !strings.Contains(err.Error(), "envelope 2 of 2 is empty") {
			t.Errorf("an empty envelope: %v", err)
		}
		err = c.Publish(t.Context(), tx, many...)
		if err == nil || !strings.Contains(err.Error(), "the limit of one call is 268435456; publish them in several calls") {
			t.Errorf("too much: %v", err)
		}
	})
	if got := rows(t, db, outbox.SQLite); len(got) != 0 {
		t.Errorf("%d rows were written", len(got))
	}
}

func TestPgxTransactionWithASQLiteClient(t *testing.T) {
	t.Parallel()
	tx, err := postgresPool(t).Begin(t.Context())
	must(t, err)
	defer func() { must(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	err = client(t, outbox.SQLite).Publish(t.Context(), tx, event(t, "g"))
	if err == nil || !strings.Contains(err.Error(), "use a client with outbox.PostgreSQL") {
		t.Errorf("got %v", err)
	}
}

func TestStatementErrorsNameTableAndFix(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	execOn(t, url, `CREATE TABLE other (id text)`)
	execOn(t, url, `CREATE TABLE stricter (LIKE outrider_outbox INCLUDING ALL, mine text NOT NULL)`)
	for name, tt := range map[string]struct {
		table, before, code, want string
	}{
		"table":      {"missing", "", "42P01", `table "missing": `},
		"schema":     {"nowhere.outbox", "", "42P01", "create the table with `outrider init`"},
		"column":     {"other", "", "42703", "another layout"},
		"own column": {"stricter", "", "23502", "another layout"},
		"privilege":  {"outrider_outbox", "SET LOCAL ROLE pg_monitor", "42501", `GRANT INSERT ON "outrider_outbox" TO <role>`},
		"read only":  {"outrider_outbox", "SET TRANSACTION READ ONLY", "25006", "primary"},
		"failed":     {"outrider_outbox", "SELECT 1/0", "25P02", "an earlier statement of the transaction failed"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), url)
			must(t, err)
			defer func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }()
			tx, err := conn.Begin(t.Context())
			must(t, err)
			_, _ = tx.Exec(t.Context(), tt.before) // "failed" fails here, on purpose
			c, err := outbox.NewClient(outbox.ClientConfig{Table: tt.table})
			must(t, err)
			err = c.Publish(t.Context(), tx, event(t, "g"))
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want SQLSTATE %s and %q", err, tt.code, tt.want)
			}
			must(t, tx.Rollback(t.Context()))
		})
	}
}

// The role needs INSERT on the table and nothing else: no sequence, no SELECT.
func TestInsertPrivilegeIsEnough(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	execOn(t, url, `GRANT INSERT ON outrider_outbox TO pg_monitor`)
	db := openDB(t, "pgx", url)
	inTx(t, db, func(tx *sql.Tx) {
		_, err := tx.ExecContext(t.Context(), "SET LOCAL ROLE pg_monitor")
		must(t, err)
		must(t, outbox.Lock(t.Context(), tx, "g"))
		must(t, client(t, outbox.PostgreSQL).Publish(t.Context(), tx, event(t, "g")))
	})
	if got := rows(t, db, outbox.PostgreSQL); len(got) != 1 {
		t.Errorf("%d rows, want 1", len(got))
	}
}

func TestSQLiteErrorsNameTableAndFix(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE other (id TEXT)")
	must(t, err)
	for _, tt := range []struct{ table, want string }{
		{"missing", "create the table with `outrider init`"},
		{"nowhere.outbox", "create the table with `outrider init`"},
		{"other", "another layout"},
	} {
		c, err := outbox.NewClient(outbox.ClientConfig{Table: tt.table, Dialect: outbox.SQLite})
		must(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		err = c.Publish(t.Context(), tx, event(t, "g"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("table %s: got %v, want %q", tt.table, err, tt.want)
		}
		must(t, tx.Rollback())
	}
}

func TestSQLiteSaysWhenItCannotWrite(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	var file string
	must(t, db.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&file))
	readOnly, err := openDB(t, "sqlite", file+"?_pragma=query_only(1)").BeginTx(t.Context(), nil)
	must(t, err)
	err = client(t, outbox.SQLite).Publish(t.Context(), readOnly, event(t, "g"))
	if err == nil || !strings.Contains(err.Error(), "for writing") {
		t.Errorf("read only: %v", err)
	}
	must(t, readOnly.Rollback())

	inTx(t, db, func(tx *sql.Tx) {
		must(t, client(t, outbox.SQLite).Publish(t.Context(), tx, event(t, "g")))
		blocked, err := openDB(t, "sqlite", file).BeginTx(t.Context(), nil)
		must(t, err)
		err = client(t, outbox.SQLite).Publish(t.Context(), blocked, event(t, "g"))
		if err == nil || !strings.Contains(err.Error(), "BEGIN IMMEDIATE") {
			t.Errorf("locked: %v", err)
		}
		must(t, blocked.Rollback())
	})
}
