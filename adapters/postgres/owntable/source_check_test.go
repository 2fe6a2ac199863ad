package owntable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

func TestCheckNamesWhatIsWrongAndTheFix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want []string
	}{
		"nothing":    {"SELECT", nil},
		"column":     {"ALTER TABLE outrider_outbox DROP COLUMN tenant_id", []string{"column tenant_id is missing; add it as: text"}},
		"type":       {"ALTER TABLE outrider_outbox ALTER COLUMN headers TYPE jsonb", []string{"column headers is jsonb", "json"}},
		"index":      {"DROP INDEX outrider_outbox_slot_xid_position_idx", []string{"CREATE INDEX CONCURRENTLY", "(slot, xid, position)"}},
		"primary":    {"ALTER TABLE outrider_outbox DROP CONSTRAINT outrider_outbox_pkey", []string{"(slot, position)"}},
		"cache":      {"ALTER TABLE outrider_outbox ALTER COLUMN position SET CACHE 20", []string{"20 positions", "SET CACHE 1"}},
		"identity":   {"ALTER TABLE outrider_outbox ALTER COLUMN position DROP IDENTITY", []string{"not an identity column"}},
		"slot":       {"ALTER TABLE outrider_outbox ALTER COLUMN slot DROP EXPRESSION", []string{"column slot must be GENERATED"}},
		"table":      {"DROP TABLE outrider_outbox", []string{`"public.outrider_outbox"`, "does not exist", "outrider init"}},
		"everything": {"ALTER TABLE outrider_outbox DROP COLUMN type, DROP COLUMN xid", []string{"column type is", "column xid is", "CREATE INDEX"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newSourceEnv(t)
			e.Exec(c.sql)
			err := e.src.Check(e.Ctx)
			if c.want != nil {
				pgtest.WantError(t, err, append(c.want, "outrider_outbox")...)
			} else {
				pgtest.Must(t, err)
			}
		})
	}
}

func TestReadOnlyGrantsAreEnough(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	insert(t, e.Pool, "g", "1")
	role, as := e.Role()
	src := e.source(as, "")
	pgtest.WantError(t, src.Check(e.Ctx), "GRANT SELECT ON \"public\".\"outrider_outbox\"", role, "GRANT SELECT ON SEQUENCE")
	l := e.Lanes(e.src, adapters.StartBeginning, 10)
	l.Src = src
	_, _, err := l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "GRANT SELECT ON SEQUENCE")
	e.Exec("GRANT SELECT ON SEQUENCE outrider_outbox_position_seq TO " + role)
	_, _, err = l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "GRANT SELECT ON outrider_outbox")
	e.Exec("REVOKE ALL ON SEQUENCE outrider_outbox_position_seq FROM " + role)
	pgtest.WantError(t, src.Validate(e.Ctx, l.From[0]), "GRANT SELECT ON SEQUENCE")

	// The grants are the ones that init prints.
	e.Exec(Grants("", "").SQL(postgres.Grantees{Relay: role}))
	pgtest.Must(t, src.Check(e.Ctx))
	pgtest.WantPayloads(t, l.All(t), "1")
	pgtest.Must(t, src.Validate(e.Ctx, l.From[0]))
	theirs, err := src.Table(e.Ctx)
	pgtest.Must(t, err)
	ours, err := e.src.Table(e.Ctx)
	pgtest.Must(t, err)
	if ours != theirs || ours.Cluster == "postgresql/" {
		t.Errorf("table %q for the owner and %q for the reader", ours, theirs)
	}

	e.Exec("ALTER TABLE outrider_outbox ENABLE ROW LEVEL SECURITY")
	pgtest.WantError(t, src.Check(e.Ctx), "BYPASSRLS")
	_, _, err = l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "BYPASSRLS")
}

// TestWritersNeedInsertOnly: the grant that init prints for applications.
func TestWritersNeedInsertOnly(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	role, as := e.Role()
	e.Exec("GRANT INSERT ON outrider_outbox TO " + role)
	conn, err := pgx.Connect(e.Ctx, as)
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, conn.Close(e.Ctx)) })
	_, err = conn.Exec(e.Ctx, `INSERT INTO outrider_outbox (type, payload) VALUES ('t', '{}')`)
	pgtest.Must(t, err)
	for _, values := range []string{"('t', NULL, NULL)", "('t', '{}', 'x')"} {
		if _, err := conn.Exec(e.Ctx, `INSERT INTO outrider_outbox (type, payload, payload_bytes) VALUES `+values); err == nil {
			t.Errorf("a row with payloads %s was taken", values)
		}
	}
}

func TestInitIsIdempotentAndSaysWhatItDid(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.Exec(`CREATE SCHEMA "Odd ""Schema"`)
	table := `"Odd ""Schema"."` + strings.Repeat("é", 30) + `"`
	for _, want := range []string{"created", "exists"} {
		said, err := Init(e.Ctx, e.Pool, table)
		pgtest.Must(t, err)
		for _, s := range said {
			if !strings.Contains(s, want) {
				t.Errorf("init said %q, want %q", s, want)
			}
		}
	}
	src := e.source(e.URL, table)
	pgtest.Must(t, src.Check(e.Ctx))
	e.Exec("INSERT INTO " + table + ` (type, payload) VALUES ('t', '{"a": "b"}')`)
	l := e.Lanes(src, adapters.StartBeginning, 10)
	if rows := l.All(t); len(rows) != 1 || string(rows[0].Payload) != `{"a": "b"}` || rows[0].CreatedAt.IsZero() || len(rows[0].ID) != 36 {
		t.Errorf("read %+v", rows)
	}
	e.Exec("ALTER TABLE " + table + " DROP COLUMN tags")
	_, err := Init(e.Ctx, e.Pool, table)
	pgtest.WantError(t, err, "column tags is missing")
	_, err = Init(e.Ctx, e.Pool, "nowhere.outbox")
	pgtest.WantError(t, err, "nowhere")

	// What is printed can be run.
	e.Exec("DROP TABLE " + table)
	e.Exec(InitSQL(table))
	pgtest.Must(t, src.Check(e.Ctx))
}

// TestG1_RestoredDatabaseIsRefused: a cursor is refused where the database is
// behind it.
func TestG1_RestoredDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	insert(t, e.Pool, "g", "1")
	l := e.Lanes(e.src, adapters.StartEnd, 10)
	good := l.From[0]
	pgtest.Must(t, e.src.Validate(e.Ctx, good))
	pgtest.Must(t, e.src.Validate(e.Ctx, adapters.Cursor{}))
	ahead, later := good, good
	ahead.Position = 2
	later.Window = "900000000000:900000000001:"
	for _, c := range []adapters.Cursor{ahead, later} {
		pgtest.WantError(t, e.src.Validate(e.Ctx, c), "outrider_outbox", "restored", "outrider rebase")
	}
	pgtest.WantError(t, e.src.Validate(e.Ctx, adapters.Cursor{Snapshot: "yesterday"}), "yesterday")

	// The same when the connection is created again on the way, as in a failover.
	l.From[3] = ahead
	_, _, err := l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "restored", "outrider rebase")
	l.From[3] = good
	l.All(t)
	e.src.base.Cluster = "postgresql/1" // as if the first connection had led there
	e.src.base.Drop()
	_, _, err = l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "the server is now postgresql/", "put back")
}

// TestG1_OtherClusterAndStandbyAreRefused needs a server of its own: it becomes
// another cluster, and then a standby.
func TestG1_OtherClusterAndStandbyAreRefused(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	private := testenv.StartPostgres(t)
	src := e.source(private.URL(), "")
	pool, err := pgxpool.New(e.Ctx, private.URL())
	pgtest.Must(t, err)
	_, err = Init(e.Ctx, pool, "")
	pgtest.Must(t, err)
	here, err := e.src.Table(e.Ctx)
	pgtest.Must(t, err)
	there, err := src.Table(e.Ctx)
	pgtest.Must(t, err)
	if here.Cluster == there.Cluster {
		t.Fatalf("two clusters have the identity %q", here.Cluster)
	}
	var dir string
	pgtest.Must(t, pool.QueryRow(e.Ctx, "SHOW data_directory").Scan(&dir))
	pool.Close()
	private.Stop(server.Fast)
	pgtest.Must(t, os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644))
	private.Start()
	pgtest.WantError(t, src.Check(e.Ctx), "standby", "target_session_attrs")
	l := e.Lanes(e.src, adapters.StartBeginning, 10)
	l.All(t)
	l.Src = src
	_, _, err = l.Next(e.Ctx, nil)
	pgtest.WantError(t, err, "standby")
}

// TestG12_NoPasswordInErrors plants a secret in every URL that fails.
func TestG12_NoPasswordInErrors(t *testing.T) {
	t.Parallel()
	const secret = "canary"
	for _, u := range []string{
		"postgres://user:" + secret + "@127.0.0.1:1/db?sslmode=disable",
		"postgres://user:p@" + secret + "@127.0.0.1:1/db",
		"postgres://user:p#" + secret + "@127.0.0.1:1/db",
		"postgres://user:p/" + secret + "@127.0.0.1:1/db",
		"postgres://user:p%" + secret + "@127.0.0.1:1/db",
		"postgres://user:p " + secret + ":@127.0.0.1:1:2/db",
		"host=127.0.0.1 port=1 password='" + secret + " dbname=x",
		"host=127.0.0.1 port=x password=" + secret,
	} {
		src, err := New(t.Context(), Config{URL: u})
		if err == nil {
			err = src.Check(t.Context())
			pgtest.Must(t, src.Close())
		}
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error is %v", u, err)
		}
		for cause := err; cause != nil; cause = errors.Unwrap(cause) {
			if strings.Contains(fmt.Sprintf("%v", cause), secret) {
				t.Errorf("%s: a cause is %v", u, cause)
			}
		}
	}
}

func TestTableNameIsFull(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	var database string
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT current_database()").Scan(&database))
	table, err := e.source(e.URL, "OUTRIDER_outbox").Table(e.Ctx)
	if want := "postgresql/" + database + "/public.outrider_outbox"; err != nil || table.Name != want {
		t.Errorf("%s, %v; want %s", table.Name, err, want)
	}
}
