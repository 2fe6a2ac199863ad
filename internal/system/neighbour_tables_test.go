package system_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // of database/sql

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// neighbourTable is a table that Outrider shares with a hostile session. Its rows have an id, by which both know them.
type neighbourTable struct {
	database, layout, table string
	key                     string // column of the id
	insert                  string // of an id and a group, made now
	group                   string // a group as Outrider names it
	payload                 string // its column
	done                    string // a row that is settled; empty: the table is append-only
	failed, due             string // a row in backoff, and what makes it due; empty: the table does not say
	dead                    string // a row that was given up
	short                   bool   // ids have 13 characters
}

// neighbourTables are the layouts on each database that has them.
var neighbourTables = []neighbourTable{
	{
		database: "postgres", layout: "outrider", table: "outrider_outbox", key: "id", group: "%s",
		insert: `INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ('%s', 'jobs', '%s', '{"id": "%[1]s"}')`,
	},
	talkieOf("postgres", "clock_timestamp()", "key"), talkieOf("mysql", "current_timestamp(6)", "`key`"), talkieOf("sqlite", strings.ReplaceAll(distinctNow, "{t}", "outbox"), "key"),
	frameworkOf("postgres", "clock_timestamp()"), frameworkOf("mysql", "utc_timestamp(6)"), frameworkOf("sqlite", strings.ReplaceAll(distinctNow, "{t}", "outbox_event")),
	catalystOf("postgres", "clock_timestamp()::timestamp"), catalystOf("mysql", "current_timestamp(6)"),
	{
		database: "postgres", layout: "open-outbox", table: "openoutbox_events", key: "event_id", group: "%s",
		insert:  `INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, created_at) VALUES ('%s', 'jobs', '%s', '{"id": "%[1]s"}', clock_timestamp())`,
		payload: `payload`, done: `status = 'DELIVERED'`, dead: `status = 'DEAD'`,
		failed: `status = 'PENDING' AND attempts = 1`, due: `available_at = now(), attempts = 0`,
	},
	{
		database: "postgres", layout: "yantra", table: "outbox_messages", key: "id", group: "%s",
		insert: `INSERT INTO outbox_messages (id, event_type, aggregate_id, aggregate_type, payload, status, created_at)
VALUES ('%s', 'jobs', '%s', 'workflow_execution', '{"id": "%[1]s"}', 'pending', clock_timestamp())`,
		payload: `payload`, done: `status = 'processed'`, dead: `status = 'failed'`,
	},
}

// distinctNow is the time in SQLite, with digits that no other row has.
const distinctNow = `strftime('%%Y-%%m-%%dT%%H:%%M:%%f', 'now') || printf('%%06dZ', (SELECT coalesce(max(rowid), 0) + 1 FROM {t}) %% 1000000)`

func talkieOf(database, now, group string) neighbourTable {
	return neighbourTable{
		database: database, layout: "talkie", table: "outbox", key: "idempotency_key", group: "%s",
		insert:  `INSERT INTO outbox (idempotency_key, topic, ` + group + `, payload_json, created_at, next_attempt_at) SELECT '%s', 'jobs', '%s', '{"id": "%[1]s"}', at, at FROM (SELECT ` + now + ` AS at) n`,
		payload: `payload_json`, done: `status = 'published'`, dead: `status = 'dead_lettered'`,
		failed: `status = 'failed'`, due: `next_attempt_at = created_at, status = 'pending', retry_count = 0`,
	}
}

func frameworkOf(database, now string) neighbourTable {
	return neighbourTable{
		database: database, layout: "outbox-framework", table: "outbox_event", key: "event_id", group: "User:%s",
		insert: `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, attempts, available_at, created_at)
SELECT '%s', 'jobs', 'User', '%s', '{"id": "%[1]s"}', 0, 0, at, at FROM (SELECT ` + now + ` AS at) n`,
		payload: `payload`, done: `status = 1`, dead: `status = 3`,
		failed: `status = 2`, due: `available_at = created_at, status = 0, attempts = 0`,
	}
}

func catalystOf(database, now string) neighbourTable {
	return neighbourTable{
		database: database, layout: "flowcatalyst", table: "outbox_events", key: "id", group: "EVENT:%s", short: true,
		insert:  `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES ('%s', 'EVENT', '%s', '{"type": "jobs", "id": "%[1]s"}', 'PENDING', ` + now + `)`,
		payload: `payload`, done: `status = 'COMPLETED'`, dead: `status = 'FAILED'`,
	}
}

// preparing returns URLs of new databases on a server of its own that prepares transactions.
func preparing(t *testing.T) func(*testing.T) string {
	t.Helper()
	s := testenv.StartPostgres(t)
	admin := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), s.URL())
		must(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		_, err = conn.Exec(t.Context(), sql)
		must(t, err)
	}
	admin("ALTER SYSTEM SET max_prepared_transactions = 20")
	s.Stop(server.Fast)
	s.Start()
	var mu sync.Mutex
	n := 0
	return func(t *testing.T) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		n++
		name := fmt.Sprint("neighbour", n)
		admin("CREATE DATABASE " + name)
		return strings.Replace(s.URL(), "/postgres?", "/"+name+"?", 1)
	}
}

// open returns the keys of a source on a new database, and connections to that.
func (nt neighbourTable) open(t *testing.T, postgres func(*testing.T) string) (source, url string, db *sql.DB) {
	t.Helper()
	var err error
	switch nt.database {
	case "postgres":
		url = postgres(t)
		db, err = sql.Open("pgx", url)
	case "mysql":
		url = testenv.MySQL(t)
		db, err = mysql.Open(url, mysql.TLS{})
	default:
		path := filepath.Join(t.TempDir(), "app.db")
		source = fmt.Sprintf("path: %q", path)
		db, err = sqlite.Open(path)
	}
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // sessions of a failed test may be in use
	if source == "" {
		source = fmt.Sprintf("url: %q", url)
	}
	return fmt.Sprintf("type: %s, layout: %s, %s", nt.database, nt.layout, source), url, db
}
