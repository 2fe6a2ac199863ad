package faults_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// pooledUse is a use of PostgreSQL that leads through PgBouncer. In texts {url} is the database through the pooler, {direct} without it.
type pooledUse struct {
	name   string
	tables string // of the source. Default: Outrider's own
	insert string // of messages from m into them
	source string // keys of the source
	top    string // further lines of the configuration
	to     string // destination. Default: a receiver of HTTP requests
	lent   bool   // in transaction mode it does not work, which doctor says
	since  string // what may be broken in session mode, too: it works since PgBouncer 1.23
}

const (
	between = "a pooler in transaction (or statement )?mode is in between"

	// Messages, and how they come into tables.
	messages   = `WITH m AS (SELECT gen_random_uuid()::text AS id, $2::text || (i % 10) AS g FROM generate_series(1, $1::int) i ORDER BY i) `
	contentSQL = `json_build_object('id', id, 'group', g)`

	intoOwn          = `INSERT INTO outrider_outbox (id, type, message_group, payload) SELECT id, 'order.created', g, ` + contentSQL + ` FROM m`
	intoWatermill    = `INSERT INTO watermill_orders (uuid, payload, metadata) SELECT id, ` + contentSQL + `, json_build_object('customer', g) FROM m`
	intoFlowCatalyst = `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		SELECT left(replace(id, '-', ''), 13), 'EVENT', g, ` + contentSQL + `, 'PENDING', clock_timestamp() FROM m`

	watermillTable = `CREATE TABLE watermill_orders ("offset" SERIAL, uuid VARCHAR(36) NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, payload JSON, metadata JSON,
		transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (transaction_id, "offset"));
	CREATE UNIQUE INDEX ON watermill_orders ("offset");`

	watermillOffsets = `CREATE TABLE watermill_offsets_orders (consumer_group VARCHAR(255) NOT NULL, offset_acked BIGINT, last_processed_transaction_id xid8 NOT NULL,
		PRIMARY KEY (consumer_group))`
)

var pooledUses = []pooledUse{
	{name: "own table", source: `url: "{url}", wake: poll`, lent: true},
	{name: "own table, notified", source: `url: "{url}", wake: notify`, lent: true},
	{name: "own table, by replication", source: `url: "{url}", wake: replication`, lent: true, since: "wake-up: "},
	{name: "append-only table", tables: watermillTable, insert: intoWatermill, source: `url: "{url}", layout: watermill, topic: orders, metadata: {group: customer}`, lent: true},
	{name: "queue table", tables: flowCatalystTables, insert: intoFlowCatalyst, source: `url: "{url}", layout: flowcatalyst, leader: false`, to: `type: http, preset: flowcatalyst, url: "{receiver}", token: secret`, lent: true},
	{name: "state store", source: `url: "{direct}"`, top: `state: {url: "{url}"}`, lent: true},
	{name: "leader lock", source: `url: "{url}", leader: true, leader_lock: 42`, lent: true},
	{
		name: "exactly once beside the state", source: `url: "{url}"`, to: `type: sql, table: copy, url: "{url}"`,
		lent: true,
	},
	{
		name: "watermill-sql's subscriber", tables: watermillTable + watermillOffsets, insert: intoWatermill,
		source: `url: "{url}&default_query_exec_mode=exec", layout: watermill, topic: orders, client: watermill`, top: `state: {url: "{direct}"}`,
	},
	{name: "River", source: `url: "{direct}"`, to: `type: river, url: "{url}&default_query_exec_mode=exec"`},
	{name: "destination table", source: `url: "{direct}"`, to: `type: sql, table: copy, url: "{url}&default_query_exec_mode=exec"`},
}

// Each use of PostgreSQL works through PgBouncer in session mode. In transaction mode it works, or doctor says what needs a session, a relay refuses to start,
// and nothing that it set stays with other clients of the pooler: they publish.
func TestG1_Poolers(t *testing.T) {
	t.Parallel()
	for _, use := range pooledUses {
		for _, mode := range []string{"session", "transaction"} {
			t.Run(use.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				use.run(t, mode)
			})
		}
	}
}

func (u pooledUse) run(t *testing.T, mode string) {
	t.Helper()
	db := newRiver(t)
	db.exec(cmp.Or(u.tables, "SELECT"))
	_, err := owntable.Init(t.Context(), db.pool, "copy")
	must(t, err)
	pooler := testenv.StartPgBouncer(t, db.url, mode, fmt.Sprint("server_round_robin = ", len(u.name)%2))
	to := receive(t, nil)
	arrived := to.arrived
	for kind, table := range map[string]string{"type: sql": "copy", "type: river": "river_job"} {
		if strings.Contains(u.to, kind) {
			arrived = func() int { return one[int](db, "SELECT count(*) FROM "+table) }
		}
	}
	config := strings.NewReplacer("{url}", pooler.URL(), "{direct}", db.url, "{receiver}", to.url()).Replace(fmt.Sprintf(`admin: {listen: off}
settle_interval: 20ms
lease: 5s
%s
sources: {app: {type: postgres, poll: {max: 50ms}, %s}}
destinations: {there: {%s}}
routes: {orders0: {from: app, to: there}}
`, u.top, u.source, cmp.Or(u.to, `type: http, url: "{receiver}"`)))
	file := writeConfig(t, config)
	_ = command(t, "init", "-c", file) // where tables are missing
	said := command(t, "doctor", "-c", file)
	refused := mode == "transaction" && u.lent
	if refused {
		wantMatch(t, "doctor", said, "(?s)BROKEN.*"+between)
	} else if i := strings.Index(said, "BROKEN"); i >= 0 && (u.since == "" || !strings.Contains(said[i:], u.since)) {
		t.Errorf("doctor finds in mode %s:\n%s", mode, said)
	}
	pooler.Revive()
	r := start(t, config)
	if refused {
		if err := r.wait(); err == nil {
			t.Error("the relay ends with status 0")
		}
		wantMatch(t, "the relay", r.output(), between)
	}
	insert := messages + cmp.Or(u.insert, intoOwn)
	app := openPool(t, pooler.URL()+"&default_query_exec_mode=exec")
	// Connections to a pooler may break: those that were idle when it was killed, for example.
	publish := func(n int, groups string) {
		var err error
		defer func() {
			if err != nil {
				t.Errorf("the application cannot publish: %v", err)
			}
		}()
		until(t, "the application publishes", func() bool {
			pooler.Revive()
			_, err = app.pool.Exec(t.Context(), insert, n, groups)
			return err == nil
		})
	}
	publish(200, "a")
	if !refused {
		r.until("delivered everything", func() bool { return arrived() >= 200 })
		pooler.Kill()
		pooler.Start()
		publish(100, "b")
		r.until("delivered everything after a restart of the pooler", func() bool { return arrived() >= 300 })
		r.stop()
	}
	// Sessions that Outrider has used are as they were.
	for range 20 {
		var got string
		until(t, "the application reads its settings", func() bool {
			pooler.Revive()
			return app.pool.QueryRow(t.Context(), "SELECT current_setting('search_path') || ' ' || current_setting('default_transaction_read_only') || ' ' || current_setting('enable_seqscan')").Scan(&got) == nil
		})
		if got != `"$user", public off on` {
			t.Fatalf("another client of the pooler has the settings %s", got)
		}
	}
	if u.to+u.insert == "" && !refused {
		if report := check.Compare(db.rows(), to.all()...); !report.Clean() {
			t.Errorf("not clean: %v", report)
		}
	}
}

func wantMatch(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s does not say %s:\n%s", what, pattern, text)
	}
}
