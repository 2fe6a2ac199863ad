package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/internal/testenv"
)

// What operators do with state in MariaDB.
func TestStateInMySQL(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write(fmt.Sprintf(`
admin: {listen: off}
state: {url: %q}
sources:
  app: {type: sqlite, path: %q}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: app, to: nowhere}
`, testenv.MySQL(t), t.TempDir()+"/app.db"))
	for _, st := range []step{
		{args: "init --print --relay relay --operator op@10.0.0.1", out: []string{"CREATE TABLE IF NOT EXISTS outrider_cursor", "GRANT SELECT, INSERT, UPDATE ON `outrider_cursor` TO 'relay'@'%'",
			"GRANT SELECT, INSERT (`by`, `action`, `filter`, `changed`) ON `outrider_audit` TO 'op'@'10.0.0.1'"}},
		{args: "doctor", code: 1, out: []string{"they do not exist yet"}},
		{args: "init", out: []string{"state tables"}},
		{args: "doctor", out: []string{"MariaDB", "has what a relay and operators' commands need"}},
		{args: "pause orders", out: []string{"orders"}},
		{args: "status", out: []string{"orders", "paused"}},
		{args: "resume orders", out: []string{"orders"}},
		{args: "seek orders --to end --yes", out: []string{"orders"}},
		{args: "parked list", out: []string{"no parked message matches"}},
	} {
		st.run(t, s)
	}
}

// What init adds to a table of the application in MySQL is said before it is added, and only said with --dry-run.
func TestInitSaysWhatItAddsInMySQL(t *testing.T) {
	t.Parallel()
	s, url := newSite(t, ""), testenv.MySQL(t)
	db, err := mysql.Open(url, mysql.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `CREATE TABLE outbox_events (id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP NULL, error_message TEXT)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  app: {type: mysql, layout: flowcatalyst, url: %q}
destinations:
  nowhere: {type: discard}
routes:
  platform: {from: app, to: nowhere}
`, url))
	const said = "table outbox_events gets outrider_queue, outrider_state, outrider_claim, outbox_events_outrider_queue_idx, outbox_events_outrider_age_idx, outbox_events_outrider_status_idx"
	for _, st := range []step{
		{args: "init --print", out: []string{"invisible columns, which SELECT * and INSERT without a list of columns do not see"}},
		{args: "init --dry-run", err: []string{said}},
		{args: "init", err: []string{said}, out: []string{"created column outrider_queue", "created table"}},
		{args: "init --dry-run"},
	} {
		st.run(t, s)
	}
}
