package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// original is a system whose table `outrider init` makes from a preset.
type original struct {
	layout, table string
	source        string // further keys of the source
	insert        string // of topic, group and payload, created now
	rows          string // id, group and place of each row; the id is the payload's
	done          string // the status
	finished      string // condition that a delivered row meets
	beside        string // statement that makes what insert needs besides; empty: nothing
	to            func(*testing.T) *receiver
	destination   string // %q is its URL
}

var originals = map[string]original{
	"talkie": {
		layout: "talkie", table: "outbox", done: "published",
		insert:   `INSERT INTO outbox (topic, key, payload_json, created_at) VALUES ($1, $2, $3::text::jsonb, clock_timestamp())`,
		rows:     `SELECT payload_json->>'id', key, row_number() OVER (ORDER BY created_at, id) FROM outbox`,
		finished: `published_at IS NOT NULL AND last_attempt_at IS NOT NULL AND last_error IS NULL AND retry_count = 0`,
	},
	"open-outbox": {
		layout: "open-outbox", table: "openoutbox_events", done: "DELIVERED",
		insert: `INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, created_at)
VALUES (gen_random_uuid(), $1, $2, convert_to($3::text, 'UTF8'), clock_timestamp())`,
		rows:     `SELECT convert_from(payload, 'UTF8')::json->>'id', partition_key, row_number() OVER (ORDER BY created_at, event_id) FROM openoutbox_events`,
		finished: `delivered_at IS NOT NULL AND locked_at IS NULL AND locked_by IS NULL AND last_error IS NULL AND attempts = 0`,
	},
	"flowcatalyst-v2": { // which deletes what it has delivered
		layout: "flowcatalyst-v2", table: "outbox_messages", done: "1", beside: `CREATE TABLE written (id text, grp text, created timestamptz)`,
		insert: `WITH m AS (INSERT INTO outbox_messages (id, type, message_group, payload, created_at)
    VALUES (left(md5($1 || $3::text), 26), (ARRAY['EVENT', 'DISPATCH_JOB', 'AUDIT_LOG'])[1 + abs(hashtext($3::text)) % 3], $2, $3, clock_timestamp()) RETURNING *)
INSERT INTO written SELECT payload::json->>'id', message_group, created_at FROM m`,
		rows: `SELECT id, grp, row_number() OVER (ORDER BY created, id) FROM written`, finished: `false`,
		to: itemsPlatform, destination: "type: http, preset: flowcatalyst-v2, url: %q",
	},
	"outbox-framework, deleting": { // without a status for what is claimed
		layout: "outbox-framework", source: ", delivered: delete", table: "outbox_event", done: "1",
		beside:   `CREATE TABLE written (id text, grp text, created timestamptz, event_id text)`,
		insert:   `WITH m AS (` + frameworkInsert + ` RETURNING *) INSERT INTO written SELECT payload->>'id', aggregate_id, created_at, event_id FROM m`,
		rows:     `SELECT id, grp, row_number() OVER (ORDER BY created, event_id) FROM written`,
		finished: `false`,
	},
	"outbox-framework": {
		layout: "outbox-framework", table: "outbox_event", done: "1", insert: frameworkInsert,
		rows:     `SELECT payload->>'id', aggregate_id, row_number() OVER (ORDER BY created_at, event_id) FROM outbox_event`,
		finished: `status = 1 AND done_at IS NOT NULL AND last_error IS NULL AND attempts = 0`,
	},
	"yantra": {
		layout: "yantra", table: "outbox_messages", done: "processed",
		insert: `INSERT INTO outbox_messages (id, event_type, aggregate_id, aggregate_type, payload, status, created_at)
VALUES (gen_random_uuid(), $1, $2, 'workflow_execution', $3::text::jsonb, 'pending', clock_timestamp())`,
		rows:     `SELECT payload->>'id', aggregate_id, row_number() OVER (ORDER BY created_at, id) FROM outbox_messages`,
		finished: `status = 'processed' AND processed_at IS NOT NULL`,
	},
	"yantra-v2": {
		layout: "yantra-v2", table: "outbox_messages", done: "completed",
		insert: `INSERT INTO outbox_messages (node_execution_id, event_type, payload, idempotency_key, next_retry_at, created_at)
VALUES (md5($2)::uuid, $1, $3, gen_random_uuid()::text, clock_timestamp(), clock_timestamp())`,
		rows:     `SELECT payload::json->>'id', payload::json->>'group', row_number() OVER (ORDER BY created_at, id) FROM outbox_messages`,
		finished: `processed_at IS NOT NULL AND last_error IS NULL AND attempts = 0`,
	},
}

// itemsPlatform accepts requests of FlowCatalyst's current API, with a status for each item.
func itemsPlatform(t *testing.T) *receiver {
	t.Helper()
	return receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		var body struct {
			Items []payload `json:"items"`
		}
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil || len(body.Items) == 0 {
			w.WriteHeader(http.StatusBadRequest) // cut off by a kill, or doctor's
			return
		}
		groups, results := map[string]bool{}, make([]map[string]string, len(body.Items))
		for i, it := range body.Items {
			if groups[it.Group] {
				r.t.Errorf("a request has two items of group %s", it.Group)
			}
			groups[it.Group], results[i] = true, map[string]string{"id": "theirs", "status": "SUCCESS"}
		}
		r.take(body.Items)
		must(r.t, json.NewEncoder(w).Encode(map[string]any{"results": results}))
	})
}

// frameworkInsert is that of the outbox framework's document; the payload says which group its row is of.
const frameworkInsert = `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at)
VALUES (gen_random_uuid()::text, $1, 'User', $2, NULL, $3::text::json, NULL, 0, 0, clock_timestamp(), clock_timestamp())`

// presetTable is a database with the table of a preset.
type presetTable struct {
	*database
	original
}

// newPreset has the program make the table.
func newPreset(t *testing.T, o original) *presetTable {
	t.Helper()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	return &presetTable{&database{t, url, pool}, o}
}

// config is the minimal configuration of a user, and the additions of a test.
func (p *presetTable) config(source, destination, route string) string {
	return fmt.Sprintf(`admin: {listen: off}
lease: 5s
sources:
  app: {type: postgres, layout: %s, url: %q, %s}
destinations:
  out: {%s}
routes:
  outbox: {from: app, to: out%s}
`, p.layout, p.url, source, destination, route)
}

// publish commits n rows of a group, in one transaction.
func (p *presetTable) publish(ctx context.Context, group, ref string, n int) error {
	ctx = context.WithoutCancel(ctx) // a commit that is not waited for could come after the rows have been compared
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if err := outbox.Lock(ctx, tx, group); err != nil {
			return err
		}
		for i := range n {
			if _, err := tx.Exec(ctx, p.insert, "jobs", group, fmt.Sprintf(`{"id": "%s-%d", "group": %q}`, ref, i, group)); err != nil {
				return err
			}
		}
		return nil
	})
}

// committed returns the rows in the order that the layout defines.
func (p *presetTable) committed() []check.Row {
	p.t.Helper()
	rows, err := p.pool.Query(p.t.Context(), p.original.rows)
	must(p.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(p.t, err)
	return out
}

// writeEvery has two writers publish into twenty groups until it is stopped.
func (p *presetTable) writeEvery(d time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Not to be cancelled: a commit that is cut off may become one after the rows were counted.
				if err := p.publish(context.WithoutCancel(ctx), fmt.Sprint("g", rand.IntN(20)), fmt.Sprint("w", w, "-", n), 1+rand.IntN(8)); err != nil && ctx.Err() == nil {
					p.t.Errorf("writer %d: %v", w, err)
					return
				}
				pause(ctx, d)
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

func (p *presetTable) count(where string) int {
	p.t.Helper()
	return one[int](p.database, "SELECT count(*) FROM "+p.table+" WHERE "+where)
}

// TestG1_G2_PresetsKilledAtEveryStep kills the program at each step between the claim of a row and its settlement. What it
// left claimed comes back after the timeout.
func TestG1_G2_PresetsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, o := range originals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPreset(t, o)
			destination := cmp.Or(o.destination, "type: http, url: %q")
			if o.to == nil {
				o.to = func(t *testing.T) *receiver { t.Helper(); return receive(t, nil) }
			}
			to := o.to(t)
			config := p.config(busy+", claims: {timeout: 1s, recover: 1s}"+o.source, fmt.Sprintf(destination, to.url()), "")
			initialise(t, config)
			if o.beside != "" {
				p.exec(o.beside)
			}
			stop := p.writeEvery(50 * time.Millisecond)
			defer stop()
			points := []failpoint.Point{failpoint.Fetched, failpoint.BeforeSend, failpoint.AfterSend, failpoint.BeforeSettle, failpoint.AfterSettle}
			kills := killAtEach(t, points, to, func(env string) *relay { return startWith(t, config, env) })
			stop()
			r := start(t, config)
			r.says("msg=ready") // from then on it heeds a signal, if there is nothing left to do
			r.until("delivered and settled everything", func() bool { return p.count("status <> '"+o.done+"'") == 0 })
			r.stop()
			report := check.Compare(p.committed(), to.all()...)
			t.Logf("%d kills: %v", kills, report)
			if !report.Clean() || report.Committed == 0 || report.Duplicates > kills*1000 {
				t.Errorf("not clean: %v", report)
			}
			if n := p.count("NOT (" + o.finished + ")"); n > 0 {
				t.Errorf("%d rows are not as the original leaves them", n)
			}
		})
	}
}

// initialise runs `outrider init`.
func initialise(t *testing.T, config string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "outrider.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	if out, err := exec.Command(program(t), "init", "-c", file).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
}

// TestG2_TalkieGivesUpAfterFiveAttempts: five failures are dead_lettered at retry_count 5, with the pauses growing by
// the first one each time; what is canceled stays; and other rows are delivered.
func TestG2_TalkieGivesUpAfterFiveAttempts(t *testing.T) {
	t.Parallel()
	p := newPreset(t, originals["talkie"])
	var mu sync.Mutex
	var tries []time.Time
	to := receive(t, func(_ *http.Request, batch []payload) int {
		for _, m := range batch {
			if strings.HasPrefix(m.ID, "bad") {
				mu.Lock()
				tries = append(tries, time.Now())
				mu.Unlock()
				return http.StatusInternalServerError
			}
		}
		return http.StatusOK
	})
	// The original's thirty seconds are a tenth of one here.
	config := p.config(busy, fmt.Sprintf("type: http, url: %q, batch: {max_messages: 1}", to.url()),
		", middleware: [poison, {retry: {attempts: 5, base: 100ms, max: 500ms, jitter: 0, growth: linear}}, timeout]")
	initialise(t, config)
	must(t, p.publish(t.Context(), "a", "bad", 1))
	must(t, p.publish(t.Context(), "b", "canceled", 1))
	p.exec(`UPDATE outbox SET status = 'canceled' WHERE key = 'b'`)
	must(t, p.publish(t.Context(), "c", "good", 3))
	r := start(t, config)
	r.until("gave up", func() bool { return p.count("status = 'dead_lettered'") == 1 })
	r.until("delivered the others", func() bool { return p.count("status = 'published'") == 3 })
	r.stop()
	if n := p.count(`key = 'a' AND retry_count = 5 AND last_error LIKE '%500%' AND published_at IS NULL AND last_attempt_at IS NOT NULL`); n != 1 {
		t.Error("the dead row is not as the original leaves it")
	}
	if n := p.count(`key = 'b' AND status = 'canceled' AND retry_count = 0 AND last_attempt_at IS NULL AND published_at IS NULL`); n != 1 {
		t.Error("the canceled row was touched")
	}
	if len(tries) != 5 {
		t.Fatalf("%d attempts, want 5", len(tries))
	}
	for i, least := range []int64{100, 200, 300, 400} {
		if pause := tries[i+1].Sub(tries[i]); pause.Milliseconds() < least-5 {
			t.Errorf("the pause after attempt %d was %v, want %d ms at least", i+1, pause, least)
		}
	}
}

// TestPresetsSendWhatTheOriginalSends checks records of Kafka: topic and key come from the row, the value is the payload, and the
// headers are those of the source system, and ours.
func TestPresetsSendWhatTheOriginalSends(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	const id = "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"
	for name, c := range map[string]struct{ insert, value, header string }{
		"talkie":      {`INSERT INTO outbox (topic, job_id, key, payload_json) VALUES ($1, $2, 'k', '{"a": 1}')`, `{"a": 1}`, "x-correlation-id"},
		"open-outbox": {`INSERT INTO openoutbox_events (event_type, event_id, partition_key, payload, headers) VALUES ($1, $2, 'k', '\x00ff', '{"trace": "t"}')`, "\x00\xff", "X-Event-ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPreset(t, originals[name])
			topic := newTopic(t, brokers)
			config := p.config(busy, `type: kafka, brokers: ["`+strings.Join(brokers, `", "`)+`"], topic: "{{.Type}}", topics: [`+topic+`], format: raw`, "")
			initialise(t, config)
			p.exec(c.insert, topic, id)
			r := start(t, config)
			client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			must(t, err)
			defer client.Close()
			records := client.PollRecords(t.Context(), 1).Records()
			r.until("settled", func() bool { return p.count(p.finished) == 1 })
			r.stop()
			if len(records) != 1 || string(records[0].Key) != "k" || string(records[0].Value) != c.value {
				t.Fatalf("records: %v", records)
			}
			headers := map[string]string{}
			for _, h := range records[0].Headers {
				headers[h.Key] = string(h.Value)
			}
			if headers[c.header] != id || name == "open-outbox" && headers["trace"] != "t" {
				t.Errorf("headers: %v", headers)
			}
		})
	}
}
