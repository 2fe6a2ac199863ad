package queuetable

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// Servers are set up in many ways. Claims, outcomes and times are the same on each, and an application's sessions have the server's settings.
func TestServersWithOtherSettings(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"lax, west of UTC, columns that update themselves": {"sql_mode=", "default-time-zone=-07:00", "explicit_defaults_for_timestamp=OFF", "character-set-server=utf8mb4", "collation-server=utf8mb4_unicode_ci"},
		"strict as in ANSI, east of UTC": {"sql_mode=ANSI,TRADITIONAL,NO_AUTO_VALUE_ON_ZERO,PAD_CHAR_TO_FULL_LENGTH,ONLY_FULL_GROUP_BY", "default-time-zone=+05:30",
			"character-set-server=utf8mb4", "collation-server=utf8mb4_bin", "transaction-isolation=SERIALIZABLE", "autocommit=0", "lower_case_table_names=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvAt(t, testenv.StartMariaDB(t, settings...).Database(), *layout.FlowCatalyst().Queue, layout.FlowCatalyst().Queue.Tables[0])
			app := plainSession(t, e.url)
			for _, statement := range []string{
				`CREATE TABLE outbox_events (id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL, status VARCHAR(20) NOT NULL,
					retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP NULL, error_message TEXT)`,
				`CREATE INDEX idx_outbox_events_status ON outbox_events(status, message_group, created_at)`,
				`INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES
					('1', 'EVENT', 'a', '{"n": 1}', 'PENDING', now() - INTERVAL 1 HOUR), ('2', 'EVENT', 'A', '{"n": 2}', 'PENDING', now() - INTERVAL 1 HOUR),
					('3', 'EVENT', NULL, '{"n": 3}', 'PENDING', now() - INTERVAL 1 HOUR)`,
				`COMMIT`,
			} {
				_, err := app.ExecContext(t.Context(), statement)
				must(t, err)
			}
			e.init()
			q := e.open()
			must(t, q.Check(t.Context()))
			if strings.HasPrefix(name, "lax") {
				e.wantFinding(q, "updates itself")
			}
			rows := e.claim(q, 10)
			if len(rows) != 3 {
				t.Fatalf("claimed %d rows, want 3", len(rows))
			}
			groups := map[string]string{}
			for _, row := range rows {
				groups[row.ID] = row.Group
				if age := time.Since(row.CreatedAt); age < time.Hour-time.Minute || age > time.Hour+10*time.Minute {
					t.Errorf("row %s is %v old, want an hour", row.ID, age)
				}
			}
			if groups["1"] != "EVENT:a" || groups["2"] != "EVENT:A" || groups["3"] != "EVENT:default" {
				t.Errorf("groups %v", groups)
			}
			results := delivered(rows...)
			results[1].Outcome, results[1].Error = outbox.OutcomeDead, strings.Repeat("é", 3000)
			results[2].Outcome = outbox.OutcomeReleased
			if lost, err := q.Settle(context.Background(), results); err != nil || len(lost) > 0 {
				t.Fatalf("%d claims were lost, %v", len(lost), err)
			}
			for _, row := range e.rows() {
				if age := time.Since(row.CreatedAt); age < time.Hour-time.Minute || age > time.Hour+10*time.Minute {
					t.Errorf("row %s (%s) is %v old, want an hour", row.Key, row.Status, age)
				}
			}
			if again := e.claim(q, 10); len(again) != 1 || again[0].ID != rows[2].ID {
				t.Errorf("%d rows can be claimed again, want the one that was given back", len(again))
			}
		})
	}
}

// plainSession is an application's one connection, with nothing set.
func plainSession(t *testing.T, at string) *sql.DB {
	t.Helper()
	u, err := url.Parse(at)
	must(t, err)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, u.Path[1:]
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}
