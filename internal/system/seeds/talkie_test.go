package seeds

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/outbox"

	"github.com/jackc/pgx/v5"
)

// The columns that Talkie's document names, and no other, with its unique constraint. The document has no CREATE TABLE.
const talkieTable = `
CREATE TABLE outbox (
    id bigserial PRIMARY KEY,
    topic text NOT NULL, key text, payload_json jsonb NOT NULL, idempotency_key text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'publishing', 'published', 'failed', 'dead_lettered')),
    retry_count int NOT NULL DEFAULT 0, last_error text, last_attempt_at timestamptz, next_attempt_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (topic, idempotency_key)
)`

const talkieMySQLTable = `
CREATE TABLE outbox (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    topic VARCHAR(255) NOT NULL, ` + "`key`" + ` VARCHAR(255), payload_json LONGTEXT NOT NULL, idempotency_key VARCHAR(255),
    status VARCHAR(20) NOT NULL DEFAULT 'pending',
    retry_count INT NOT NULL DEFAULT 0, last_error TEXT, last_attempt_at TIMESTAMP(6) NULL, next_attempt_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    published_at TIMESTAMP(6) NULL, created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    UNIQUE (topic, idempotency_key)
)`

// A table with the document's columns, which has no job_id, is delivered, and its rows go through the document's states. The document's queries
// find what failed.
func TestTalkieTableOfTheDocument(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*database{"postgres": onPostgres(t, talkieTable), "mysql": onMySQL(t, talkieMySQLTable)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talkieDelivers(t, d, name)
		})
	}
}

func talkieDelivers(t *testing.T, d *database, typ string) {
	t.Helper()
	a := newAPI(t)
	a.refuses = "poison"
	cfg := configured(t, `
sources: {app: {type: %s, layout: talkie, url: %q, poll: {min: 5ms, max: 5ms}}}
destinations: {api: {type: http, url: %q, batch: {max_messages: 1}}}
routes: {outbox: {from: app, to: api, middleware: [poison, {retry: {attempts: 2, base: 1h, max: 1h}}]}}
`, typ, d.url, a.URL+"/jobs")
	run(t, cfg)
	d.exec(`INSERT INTO outbox (topic, payload_json, idempotency_key) VALUES ('jobs', '{"a": 1}', 'k'), ('jobs', '{"a": "poison"}', 'l')`)
	eventually(t, "published", func() bool {
		return d.text(`SELECT count(*) FROM outbox WHERE status = 'published' AND published_at IS NOT NULL`) == "1"
	})
	if !a.has(`POST /jobs  [{"a": 1}]`) {
		t.Errorf("the receiver got %q", a.requests)
	}
	const failed = `SELECT * FROM outbox WHERE status IN ('failed', 'dead_lettered') ORDER BY next_attempt_at`
	due := `SELECT * FROM outbox WHERE status = 'failed' AND next_attempt_at <= now()`
	count := func(query string) string {
		return d.text("SELECT count(*) FROM (" + strings.TrimSuffix(query, ";") + ") AS found")
	}
	eventually(t, "failed", func() bool { return count(failed) == "1" })
	if n := count(due); n != "0" {
		t.Errorf("%s rows are due before their next attempt", n)
	}
	if got := d.text(`SELECT retry_count FROM outbox WHERE status = 'failed' AND last_error IS NOT NULL AND last_attempt_at IS NOT NULL`); got != "1" {
		t.Errorf("retry_count is %s", got)
	}
	d.exec(`UPDATE outbox SET next_attempt_at = now() WHERE status = 'failed'`)
	eventually(t, "dead", func() bool { return d.text(`SELECT count(*) FROM outbox WHERE status = 'dead_lettered'`) == "1" })
}

// The client writes into such a table too, as long as no message has a job.
func TestTalkieClientOnTheTableOfTheDocument(t *testing.T) {
	t.Parallel()
	d := onPostgres(t, talkieTable)
	client, err := outbox.NewTalkie(outbox.TalkieConfig{})
	must(t, err)
	must(t, pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		id, err := client.Publish(t.Context(), tx, outbox.TalkieMessage{Topic: "jobs", Key: "k", Payload: []byte(`{}`), IdempotencyKey: "i"})
		if err == nil && id != 1 {
			t.Errorf("the row has the id %d", id)
		}
		return err
	}))
	if got := d.text(`SELECT key || idempotency_key || status FROM outbox`); got != "kipending" {
		t.Errorf("the row is %s", got)
	}
}
