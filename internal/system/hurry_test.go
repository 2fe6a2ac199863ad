package system_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/internal/testenv"
)

// failing fails messages until it has seen enough.
type failing struct {
	mu     sync.Mutex
	until  int // messages that fail
	failed int
	ids    []string // of those that arrived
}

// Publish implements message.Publisher.
func (f *failing) Publish(_ string, msgs ...*message.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed < f.until {
		f.failed += len(msgs)
		return errors.New("not now")
	}
	for _, msg := range msgs {
		f.ids = append(f.ids, string(msg.Payload))
	}
	return nil
}

// Close implements message.Publisher.
func (*failing) Close() error { return nil }

func (f *failing) arrived() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.ids...)
}

// hurried is a table of rows whose next attempt an operator can make due.
type hurried struct {
	source, insert, now, failed, hurry string
	db                                 *sql.DB
}

func openMySQL(t *testing.T, at string) *sql.DB {
	t.Helper()
	u, err := url.Parse(at)
	must(t, err)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, u.Path[1:]
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// hurriedTables are layouts with a column for the next attempt, on each database.
var hurriedTables = map[string]func(database string) hurried{
	"talkie": func(database string) hurried {
		key := map[string]string{"mysql": "`key`"}[database]
		if key == "" {
			key = "key"
		}
		now := map[string]string{"postgres": "now()", "mysql": "NOW(6)", "sqlite": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"}[database]
		return hurried{insert: "INSERT INTO outbox (topic, " + key + ", payload_json) VALUES ('t', 'g', '%d')",
			failed: "SELECT count(*) FROM outbox WHERE status = 'failed' AND retry_count = 1",
			hurry:  "UPDATE outbox SET next_attempt_at = " + now + ", status = 'pending', retry_count = 0 WHERE status = 'failed'"}
	},
	"outbox-framework": func(database string) hurried {
		now := map[string]string{"postgres": "now()", "mysql": "UTC_TIMESTAMP(6)", "sqlite": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"}[database]
		return hurried{insert: `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
			VALUES ('e%[1]d', 't', 'A', 'g', '%[1]d', 0, {now}, {now})`,
			now: now, failed: "SELECT count(*) FROM outbox_event WHERE status = 2 AND attempts = 1",
			hurry: "UPDATE outbox_event SET available_at = " + now + ", status = 0, attempts = 0 WHERE status = 2"}
	},
}

// TestG13_ARowInBackoffIsDueWhenTheTableSaysSo: an operator makes a row due by SQL that would wait for an hour. It is sent by the next poll, and
// what waits behind it after it.
func TestG13_ARowInBackoffIsDueWhenTheTableSaysSo(t *testing.T) {
	t.Parallel()
	for layout, table := range hurriedTables {
		for _, database := range []string{"postgres", "mysql", "sqlite"} {
			t.Run(database+"/"+layout, func(t *testing.T) {
				t.Parallel()
				h := table(database)
				switch database {
				case "postgres":
					at := testenv.Postgres(t)
					h.source, h.db = fmt.Sprintf("url: %q", at), openPostgres(t, at)
				case "mysql":
					at := testenv.MySQL(t)
					h.source, h.db = fmt.Sprintf("url: %q", at), openMySQL(t, at)
				case "sqlite":
					at := filepath.Join(t.TempDir(), "app.db")
					h.source, h.db = fmt.Sprintf("path: %q", at), openSQLite(t, at)
				}
				hurry(t, database, layout, h)
			})
		}
	}
}

func hurry(t *testing.T, database, layout string, h hurried) {
	cfg := configured(t, `
sources: {app: {type: %s, layout: %s, %s, poll: {max: 50ms}}}
routes: {work: {from: app, to: bus, middleware: [{retry: {attempts: 5, base: 1h, max: 1h}}]}}
`, database, layout, h.source)
	exec := func(query string) {
		t.Helper()
		_, err := h.db.ExecContext(t.Context(), query)
		must(t, err)
	}
	exec(strings.ReplaceAll(fmt.Sprintf(h.insert, 1), "{now}", h.now))
	to := &failing{until: 1}
	defer relay(t, cfg, outrider.WithDestination("bus", to))()
	eventually(t, "the row is in backoff", func() bool {
		var n int
		must(t, h.db.QueryRowContext(t.Context(), h.failed).Scan(&n))
		return n == 1
	})
	exec(strings.ReplaceAll(fmt.Sprintf(h.insert, 2), "{now}", h.now))
	exec(h.hurry)
	eventually(t, "both have arrived", func() bool { return len(to.arrived()) == 2 })
	if got := strings.Join(to.arrived(), " "); got != "1 2" {
		t.Errorf("arrived: %s, want 1 2", got)
	}
}
