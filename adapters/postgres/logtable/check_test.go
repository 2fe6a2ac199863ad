package logtable

import (
	"strings"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

func TestLogCheckNamesWhatIsWrongAndTheFix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table, sql string
		want       []string
	}{
		"nothing":       {"watermill", "SELECT", nil},
		"nothing else":  {"custom", "SELECT", nil},
		"no table":      {"watermill", "DROP TABLE watermill_orders", []string{"does not exist", "the application's to create"}},
		"no position":   {"watermill", `DROP INDEX watermill_orders_outrider_offset_idx`, []string{`CREATE UNIQUE INDEX CONCURRENTLY`, `("offset")`}},
		"no late index": {"custom", `DROP INDEX "Shop"."Event Log_outrider_tx_No_idx"`, []string{`CREATE INDEX CONCURRENTLY`, `("tx", "No")`}},
		"not unique": {"watermill", `DROP INDEX watermill_orders_outrider_offset_idx; CREATE INDEX ON watermill_orders ("offset")`,
			[]string{"CREATE UNIQUE INDEX"}},
		"no column":    {"custom", `ALTER TABLE "Shop"."Event Log" RENAME kind TO sort`, []string{`no column "kind" for type`, `"sort"`}},
		"no xid":       {"custom", `ALTER TABLE "Shop"."Event Log" DROP COLUMN tx`, []string{`ADD COLUMN xid xid8`, "pg_current_xact_id()", "NOT VALID"}},
		"another xid":  {"custom", `ALTER TABLE "Shop"."Event Log" ALTER COLUMN tx DROP DEFAULT, ALTER COLUMN tx TYPE text`, []string{`"tx" is text`, "xid8"}},
		"xid nullable": {"custom", `ALTER TABLE "Shop"."Event Log" ALTER COLUMN tx DROP NOT NULL`, []string{"may be null", `CHECK ("tx" IS NOT NULL) NOT VALID`}},
		"payload type": {"watermill", `ALTER TABLE watermill_orders ALTER COLUMN payload TYPE text[] USING NULL`, []string{`"payload" is text[]`, "bytea"}},
		"cache":        {"watermill", `ALTER SEQUENCE watermill_orders_offset_seq CACHE 20`, []string{"20 positions", "CACHE 1"}},
		"a view": {"watermill", `ALTER TABLE watermill_orders RENAME TO real; CREATE VIEW watermill_orders AS SELECT * FROM real`,
			[]string{"it is not a table"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newLogEnv(t, c.table)
			for statement := range strings.SplitSeq(c.sql, "; ") {
				e.Exec(statement)
			}
			err := e.log.Check(e.Ctx)
			if c.want != nil {
				pgtest.WantError(t, err, append(c.want, e.log.base.Table)...)
				said, err := Init(e.Ctx, e.Pool, e.cfg)
				if len(said) != 1 || !strings.Contains(said[0], "init does not create it") {
					t.Errorf("init said %q", said)
				}
				pgtest.WantError(t, err, append(c.want, "init does not create it")...)
				return
			}
			pgtest.Must(t, err)
			said, err := Init(e.Ctx, e.Pool, e.cfg)
			pgtest.Must(t, err)
			if len(said) != 2 || !strings.Contains(said[1], "has what reading needs") {
				t.Errorf("init said %q", said)
			}
		})
	}
}

// TestLogCheckFixesWork runs what Check says for a nullable column, and reads
// with the grants that init prints.
func TestLogCheckFixesWork(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "custom")
	e.Exec(`ALTER TABLE "Shop"."Event Log" ALTER COLUMN tx DROP NOT NULL`)
	e.Exec(alterTableOf(t, e.log.Check(e.Ctx)))
	pgtest.Must(t, e.log.Check(e.Ctx))
	e.publish("g1", "1")

	role, as := e.Role()
	reader := *e
	reader.URL = as
	src := reader.open()
	e.Exec(`GRANT USAGE ON SCHEMA "Shop" TO ` + role)
	pgtest.WantError(t, src.Check(e.Ctx), "GRANT SELECT ON \"Shop\".\"Event Log\"", "GRANT SELECT ON SEQUENCE")
	grants, err := Grants(e.cfg)
	pgtest.Must(t, err)
	printed := grants.SQL(pg.Grantees{Relay: role, Operator: role})
	e.Exec(strings.ReplaceAll(printed, "-- GRANT SELECT ON SEQUENCE", "GRANT SELECT ON SEQUENCE")) // positions come from it here
	pgtest.Must(t, src.Check(e.Ctx))
	l := e.Lanes(src, adapters.StartBeginning, 10)
	pgtest.WantPayloads(t, l.All(t), "1")
	pgtest.Must(t, src.Validate(e.Ctx, l.From[0]))
	e.Exec(`ALTER TABLE "Shop"."Event Log" ENABLE ROW LEVEL SECURITY`)
	pgtest.WantError(t, src.Check(e.Ctx), "BYPASSRLS")
}

// TestLogReadsWithoutIndexes: without them reading is slow, and still right.
func TestLogReadsWithoutIndexes(t *testing.T) {
	t.Parallel()
	e := logTables["watermill"](pgtest.New(t))
	src := e.open()
	late := e.Begin()
	_, err := late.Exec(e.Ctx, e.insert, "g1", `"late"`)
	pgtest.Must(t, err)
	e.publish("g1", "early")
	l := e.Lanes(src, adapters.StartBeginning, 10)
	pgtest.WantPayloads(t, l.All(t), "early")
	pgtest.Must(t, late.Commit(e.Ctx))
	e.publish("g1", "fresh")
	pgtest.WantPayloads(t, l.All(t), "late", "fresh")
}

// TestInitLogSQL: what is printed can be run, also for odd names.
func TestInitLogSQL(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	for _, topic := range []string{"orders", "Orders.v1-$x", strings.Repeat("long_", 10)} {
		makeTopic(e, topic, wmsql.DefaultPostgreSQLSchema{})
		cfg := Config{Layout: "watermill", Topic: topic}
		printed, err := InitSQL(cfg)
		pgtest.Must(t, err)
		if strings.Count(printed, "CREATE ") != 1 || !strings.Contains(printed, "creates nothing") {
			t.Errorf("printed for a stock table:\n%s", printed)
		}
		for _, s := range sqlStatements(printed) {
			e.Exec(s)
		}
		l := &logEnv{Env: e, cfg: cfg}
		pgtest.Must(t, l.open().Check(e.Ctx))
	}
}

// TestInitLogSQLLongNames: indexes have names that PostgreSQL keeps whole, however
// long those of the columns are.
func TestInitLogSQLLongNames(t *testing.T) {
	t.Parallel()
	long := func(s string) string { return strings.Repeat(s, pg.LongestName) }
	printed, err := InitSQL(Config{Layout: LayoutCustom, Table: long("t"),
		Columns: Columns{Position: long("p"), XID: long("x"), ID: "id", Payload: "body", Type: "=t"}})
	pgtest.Must(t, err)
	if !strings.Contains(printed, "_outrider_1_idx") || !strings.Contains(printed, "_outrider_2_idx") {
		t.Errorf("printed:\n%s", printed)
	}
}

func TestNewLogSourceRefuses(t *testing.T) {
	t.Parallel()
	columns := Columns{Position: "n", XID: "xid", ID: "id", Payload: "body", Type: "kind"}
	without := func(change func(*Columns)) Columns {
		c := columns
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"layout":          {Config{Layout: "flat", Table: "t"}, `layout "flat"`},
		"no topic":        {Config{Layout: "watermill"}, "neither a topic nor a table"},
		"long topic":      {Config{Layout: "watermill", Topic: strings.Repeat("x", 54)}, "longer than the 63 bytes"},
		"columns":         {Config{Layout: "watermill", Topic: "t", Columns: columns}, "layout custom"},
		"no table":        {Config{Layout: LayoutCustom, Columns: columns}, "no table"},
		"name":            {Config{Layout: LayoutCustom, Columns: columns, Table: `a b`}, "double quotes"},
		"no xid":          {Config{Layout: LayoutCustom, Table: "t", Columns: without(func(c *Columns) { c.XID = "" })}, `ALTER TABLE "t" ADD COLUMN xid xid8`},
		"no type":         {Config{Layout: LayoutCustom, Table: "t", Columns: without(func(c *Columns) { c.Type = "" })}, "column type is not given"},
		"constant group":  {Config{Layout: LayoutCustom, Table: "t", Columns: without(func(c *Columns) { c.Group = "=g" })}, "differs from row to row"},
		"keys of nothing": {Config{Layout: LayoutCustom, Table: "t", Columns: columns, Metadata: Metadata{Group: "g"}}, "column headers is not given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.URL = "postgres://127.0.0.1:1/none"
			_, err := New(t.Context(), c.cfg)
			pgtest.WantError(t, err, c.want)
		})
	}
}

// TestG1_LogRestoredDatabaseIsRefused: a cursor is refused where the database is
// behind it.
func TestG1_LogRestoredDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	e.publish("g1", "1")
	good := e.Lanes(e.log, adapters.StartEnd, 10).From[0]
	pgtest.Must(t, e.log.Validate(e.Ctx, good))
	ahead, later := good, good
	ahead.Position = 2
	later.Window = "900000000000:900000000001:"
	for _, c := range []adapters.Cursor{ahead, later} {
		pgtest.WantError(t, e.log.Validate(e.Ctx, c), "watermill_orders", "restored")
	}
	pgtest.WantError(t, e.log.Validate(e.Ctx, adapters.Cursor{Snapshot: "yesterday"}), "yesterday")
}
