package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// Every command does its work on a source without a cursor, or says why not.
func TestCommandsOnAQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: flowcatalyst, url: %q}
destinations:
  nowhere: {type: discard}
routes:
  platform: {from: shop, to: nowhere}
`, testenv.Postgres(t)))
	const none = `its source "shop" is a queue`
	for _, st := range []step{
		{args: "doctor", code: 1, out: []string{"outbox_events", "does not exist", "outrider init"}},
		{args: "init", out: []string{`created table "public"."outbox_events"`, `created table "public"."outbox_dispatch_jobs"`}},
		{args: "doctor", out: []string{"outbox_events: privileges: its rows may be read and settled", "rows without a route: none", "lag: nothing is waiting to be read", "no problems found"}},
		{args: "status", out: []string{"platform", "(has never run)"}},
		{args: "pause platform", out: []string{"is paused"}},
		{args: "resume platform", out: []string{"resumed"}},
		{args: "seek platform --to end", code: 1, err: []string{none}},
		{args: "rebase platform", code: 1, err: []string{none}},
		{args: "tail platform", code: 1, err: []string{"no log table"}},
		{args: "publish --type a --payload 1", code: 1, err: []string{"layout flowcatalyst"}},
		{args: "retention", out: []string{"no source has a retention"}},
		{args: "parked list", out: []string{"no parked message matches"}},
	} {
		st.run(t, s)
	}
}

// Rows that a crash has left marked wait for the timeout: an operator sees them.
func TestStatusTellsWhatIsBeingProcessed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	url := testenv.Postgres(t)
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: flowcatalyst, url: %q}
destinations:
  nowhere: {type: discard}
routes:
  platform: {from: shop, to: nowhere}
`, url))
	s.must("init")
	runSQL(t, url, `INSERT INTO outbox_events (id, type, payload, status, created_at, processed_at)
		VALUES ('1', 'EVENT', '{}', 'PROCESSING', now(), now() - interval '3 min')`)
	s.runUntil(func() bool {
		return strings.Contains(s.must("status"), "1 row of its source is marked as being processed, for 3m")
	})
	if text := s.must("status", "--output", "json"); !strings.Contains(text, `"processing"`) {
		t.Errorf("the JSON does not tell it: %s", text)
	}
}

// How much of a queue is left to do, and since when, is told as of a log.
func TestWhatIsLeftOfAQueueIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	url := testenv.Postgres(t)
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: flowcatalyst, url: %q, wake: notify}
destinations:
  nowhere: {type: discard}
routes:
  platform: {from: shop, to: nowhere, match: {types: [order.created]}}
`, url+"&timezone=UTC"))
	s.must("init", "--notify")
	s.runUntil(func() bool { return strings.Contains(s.must("status", "-o", "json"), `"lanes": 16`) })
	runSQL(t, url, `INSERT INTO outbox_events (id, type, payload, status, created_at)
		SELECT i::text, 'EVENT', '{"type": "order.paid"}', 'PENDING', timestamp '2026-01-02 03:04:05' + i * interval '1 min' FROM generate_series(0, 2) i`)
	for _, st := range []step{
		{args: "doctor", out: []string{"lag: 3 rows are not settled, the oldest from 2026-01-02T03:04:05Z", "notifications: they are heard",
			`table "outbox_events": trigger outrider_wake: every INSERT wakes the relay`}},
		{args: "status", out: []string{"  3 ("}},
		{args: "status --output json", out: []string{`"behind": 3`, `"oldest": "2026-01-0`}},
	} {
		st.run(t, s)
	}
}

// A table of others cannot be rebased after a restore: a seek is what places its
// route again, and everybody says so.
func TestATableOfOthersAfterARestore(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	url := testenv.Postgres(t)
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: custom, table: events, url: %q, columns: {id: id, type: "=e", payload: payload, position: no, xid: xid}}
destinations:
  nowhere: {type: discard}
routes:
  all: {from: shop, to: nowhere}
`, url))
	exec := func(query string) { t.Helper(); runSQL(t, url, query) }
	exec(`CREATE TABLE events (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, payload json NOT NULL,
		xid xid8 NOT NULL DEFAULT pg_current_xact_id())`)
	exec(`CREATE INDEX ON events (xid, no)`)
	exec(`INSERT INTO events (id, payload) SELECT i::text, '{}' FROM generate_series(1, 5) i`)
	for _, st := range []step{
		{args: "init", out: []string{"state tables"}},
		{args: "seek all --to 3 --yes", out: []string{"done"}},
	} {
		st.run(t, s)
	}
	exec(`UPDATE outrider_cursor SET cluster = 'postgresql/1'`)
	for _, st := range []step{
		{args: "run", code: 1, err: []string{`cursor belongs to database cluster`, "outrider seek all --to"}},
		{args: "rebase all --yes", code: 1, err: []string{"cannot be rebased", "outrider seek all"}},
		{args: "seek all --to 4 --yes", out: []string{"done"}},
		{args: "status", out: []string{"no-relay  16     (none)  3"}},
	} {
		st.run(t, s)
	}
}
