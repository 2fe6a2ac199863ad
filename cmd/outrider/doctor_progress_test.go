package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// The doctor says what is wrong with a table of progress, and which of its rows no route keeps.
func TestDoctorExaminesTheTableOfProgress(t *testing.T) {
	t.Parallel()
	url, role := testenv.Postgres(t), "relay_"+strings.ToLower(rand.Text())
	createRole(t, url, role)
	as := func(url string) *site {
		s := newSite(t, "")
		s.write(fmt.Sprintf(`
admin: {listen: off}
sources: {events: {type: postgres, url: %q, layout: crablet}}
destinations: {nowhere: {type: discard}}
routes: {wallets: {from: events, to: nowhere, progress: {topic: wallets, publisher: Http}}}
`, url))
		return s
	}
	relay := as(asRole(t, url, role))
	exec := func(query string) { t.Helper(); runSQL(t, url, query) }
	want := func(subject, level, after string) {
		t.Helper()
		if got := relay.levels(); got["progress: "+subject] != level {
			t.Errorf("%s: %s is %q, want %q (of %v)", after, subject, got["progress: "+subject], level, got)
		}
	}
	exec(`CREATE TABLE events (type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX ON events (transaction_id, position);
GRANT SELECT ON events, events_position_seq TO ` + role)
	as(url).must("init")
	const columns = `topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE', error_count INT NOT NULL DEFAULT 0, last_error TEXT, updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    leader_instance VARCHAR(255), leader_heartbeat TIMESTAMPTZ, PRIMARY KEY (topic, publisher)`
	exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role)
	want("table", "broken", "without the table")
	exec("CREATE TABLE outbox_topic_progress (" + columns + "); GRANT SELECT, INSERT, UPDATE ON outbox_topic_progress TO " + role)
	want("table", "broken", "without the column leader_since")
	exec("ALTER TABLE outbox_topic_progress ADD leader_since TIMESTAMPTZ; REVOKE UPDATE ON outbox_topic_progress FROM " + role)
	want("table", "broken", "without the right to UPDATE")
	exec("GRANT UPDATE ON outbox_topic_progress TO " + role)
	want("table", "ok", "with all that it needs")
	exec("INSERT INTO outbox_topic_progress (topic, publisher) VALUES ('wallets', 'Http'), ('wallets', 'Kafka')")
	want("rows without a route", "warning", "with a row of another publisher")
}
