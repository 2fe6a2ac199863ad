package seeds

import (
	"strings"
	"testing"

	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The table and the indexes of Yantra's document.
const yantraTable = `
CREATE TABLE outbox_messages (
    id              UUID PRIMARY KEY,
    aggregate_id    VARCHAR(255) NOT NULL,  -- execution_id
    aggregate_type  VARCHAR(50) NOT NULL,   -- 'workflow_execution'
    event_type      VARCHAR(50) NOT NULL,   -- 'workflow.triggered'
    payload         JSONB NOT NULL,         -- Job details
    status          VARCHAR(20) NOT NULL,   -- 'pending', 'processed', 'failed'
    created_at      TIMESTAMP NOT NULL,
    processed_at    TIMESTAMP
);

-- Fast pending message lookup
CREATE INDEX idx_outbox_status_created
ON outbox_messages(status, created_at)
WHERE status = 'pending';

-- Fast aggregate lookup
CREATE INDEX idx_outbox_aggregate
ON outbox_messages(aggregate_id, aggregate_type);`

// A row of the document becomes a job of River and is processed; one whose payload is no object fails. The document's wish, "Clean up processed
// messages", is retention: pending and failed rows stay.
func TestYantraTableOfTheDocument(t *testing.T) {
	t.Parallel()
	d := onPostgres(t, yantraTable)
	migrate(t, d)
	const insert = `INSERT INTO outbox_messages (id, aggregate_id, aggregate_type, event_type, payload, status, created_at)
VALUES ($1, $2, 'workflow_execution', 'workflow.triggered', $3::text::jsonb, 'pending', now() - $4::text::interval)`
	d.exec(insert, "00000000-0000-4000-8000-000000000001", "old", `{"workflow_id": "w", "execution_id": "old"}`, "200 hours")
	d.exec(insert, "00000000-0000-4000-8000-000000000002", "young", `{"workflow_id": "w", "execution_id": "young"}`, "1 hour")
	d.exec(insert, "00000000-0000-4000-8000-000000000003", "bad", `[]`, "200 hours")
	cfg := configured(t, `
sources: {app: {type: postgres, layout: yantra, url: %[1]q, poll: {min: 5ms, max: 5ms}, retention: {keep: 168h, every: 1s}}}
destinations: {jobs: {type: river, url: %[1]q, kind: execute_workflow}}
routes: {work: {from: app, to: jobs}}
`, d.url)
	run(t, cfg)
	eventually(t, "two jobs", func() bool {
		return d.text(`SELECT count(*)::text FROM river_job WHERE kind = 'execute_workflow'`) == "2"
	})
	if got := d.text(`SELECT string_agg(args->>'execution_id', ' ' ORDER BY args->>'execution_id') FROM river_job`); got != "old young" {
		t.Errorf("the jobs are of %s", got)
	}
	eventually(t, "the old row is removed", func() bool {
		return d.text(`SELECT coalesce(string_agg(aggregate_id || ' ' || status, ', ' ORDER BY aggregate_id), '') FROM outbox_messages`) == "bad failed, young processed"
	})
	if got := d.text(`SELECT count(*)::text FROM outbox_messages WHERE processed_at IS NOT NULL`); got != "1" {
		t.Errorf("%s rows say when they were processed", got)
	}
	plan := d.text(`SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'outbox_messages'`)
	for _, index := range []string{"idx_outbox_status_created", "idx_outbox_aggregate", "outbox_messages_outrider_done_idx"} {
		if !strings.Contains(plan, index) {
			t.Errorf("the table has no index %s: %s", index, plan)
		}
	}
}

// migrate makes River's tables.
func migrate(t *testing.T, d *database) {
	t.Helper()
	migrator, err := rivermigrate.New(riverpgxv5.New(d.pool), nil)
	must(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	must(t, err)
}
