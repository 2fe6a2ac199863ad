package queuetable

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// system is a program that works on the tables of a preset, with its own statements. In them {t} is the table; those that
// take rows return keys as text, the others take keys, as text, in $1.
type system struct {
	preset             func() *layout.Preset
	id                 func(int) string // a key
	insert             string           // as its applications do, of a row with all there is; returns the key
	stress             string           // of a key and a group, created now
	claim, done, retry string

	plain string                               // makes key and payload text, as the conformance suite has them
	fresh map[string]string                    // the row that insert makes, as JSON; times are "set", "now" or "later", or null
	ends  map[outbox.Outcome]map[string]string // what changes; nil: the row is deleted
	sent  map[string]string                    // headers of the message
}

// in names the table.
func (s *system) in(table, statement string) string {
	return strings.ReplaceAll(statement, "{t}", table)
}

func decimal(n int) string { return fmt.Sprintf("%012d", n) }

var flowCatalystSystem = system{
	preset: layout.FlowCatalyst, id: decimal,
	insert: `INSERT INTO {t} (id, type, message_group, payload, status, created_at) VALUES ('0HZXEQ5Y8JY5Z', 'EVENT', 'order-1', '{"a":1}', 'PENDING', clock_timestamp()) RETURNING id`,
	stress: `INSERT INTO {t} (id, type, message_group, payload, status, created_at) VALUES ($1, 'EVENT', nullif($2, 'default'), '{}', 'PENDING', clock_timestamp())`,
	claim: `WITH selected AS (
    SELECT id FROM {t} WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT 7 FOR UPDATE SKIP LOCKED
)
UPDATE {t} t SET status = 'PROCESSING', processed_at = NOW() FROM selected s WHERE t.id = s.id RETURNING t.id`,
	done:  `UPDATE {t} SET status = 'COMPLETED', processed_at = NOW() WHERE id = ANY ($1)`,
	retry: `UPDATE {t} SET status = 'PENDING', retry_count = retry_count + 1 WHERE id = ANY ($1)`,
	fresh: map[string]string{"id": `"0HZXEQ5Y8JY5Z"`, "type": `"EVENT"`, "message_group": `"order-1"`, "payload": `"{\"a\":1}"`, "status": `"PENDING"`,
		"retry_count": "0", "created_at": "set", "processed_at": "null", "error_message": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": `"COMPLETED"`, "processed_at": "now"},
		outbox.OutcomeRetry:     {"status": `"PENDING"`, "processed_at": "now", "retry_count": "1"},
		outbox.OutcomeDead:      {"status": `"FAILED"`, "processed_at": "now", "error_message": `"refused"`},
		outbox.OutcomeReleased:  {"processed_at": "now"},
	},
}

// Talkie waits 30 s for each failure so far; here it is a hundredth of a second.
var talkieSystem = system{
	preset: layout.Talkie, id: decimal,
	insert: `INSERT INTO {t} (job_id, topic, key, payload_json, idempotency_key)
VALUES ('6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11', 'jobs', '6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11', '{"a": 1}', '6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11')
ON CONFLICT (topic, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING id::text`,
	stress: `INSERT INTO {t} (id, topic, key, payload_json, created_at) VALUES ($1::text::bigint, 'jobs', nullif($2, 'default'), '{}', clock_timestamp())`,
	claim: `UPDATE {t} SET status = 'publishing', last_attempt_at = now()
WHERE id IN (SELECT id FROM {t} WHERE status IN ('pending', 'failed') AND next_attempt_at <= now()
    ORDER BY next_attempt_at, id LIMIT 7 FOR UPDATE SKIP LOCKED)
RETURNING id::text`,
	done: `UPDATE {t} SET status = 'published', published_at = now() WHERE id = ANY ($1::text[]::bigint[])`,
	retry: `UPDATE {t} SET retry_count = retry_count + 1, status = CASE WHEN retry_count + 1 >= 50 THEN 'dead_lettered' ELSE 'failed' END,
    last_error = 'refused', last_attempt_at = now(), next_attempt_at = now() + interval '0.01 seconds' * (retry_count + 1)
WHERE id = ANY ($1::text[]::bigint[])`,
	plain: `ALTER TABLE {t} ALTER COLUMN id DROP DEFAULT; ALTER TABLE {t} ALTER COLUMN id TYPE text, ALTER COLUMN payload_json TYPE text`,
	fresh: map[string]string{"id": "1", "job_id": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`, "topic": `"jobs"`, "key": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`,
		"payload_json": `{"a": 1}`, "idempotency_key": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`, "status": `"pending"`, "retry_count": "0",
		"next_attempt_at": "set", "last_attempt_at": "null", "created_at": "set", "published_at": "null", "last_error": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": `"published"`, "last_attempt_at": "now", "published_at": "now"},
		outbox.OutcomeRetry:     {"status": `"failed"`, "last_attempt_at": "now", "retry_count": "1", "last_error": `"refused"`, "next_attempt_at": "later"},
		outbox.OutcomeDead:      {"status": `"dead_lettered"`, "last_attempt_at": "now", "retry_count": "1", "last_error": `"refused"`},
		outbox.OutcomeReleased:  {"last_attempt_at": "now"},
	},
	sent: map[string]string{"x-correlation-id": "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"},
}

var openOutboxSystem = system{
	preset: layout.OpenOutbox, id: func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) },
	insert: `INSERT INTO {t} (event_id, event_type, partition_key, payload, headers)
VALUES ('6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11', 'user.created', 'user-1', '{"a":1}', '{"trace": "t-1"}') RETURNING event_id::text`,
	stress: `INSERT INTO {t} (event_id, event_type, partition_key, payload, created_at) VALUES ($1::text::uuid, 'user.created', nullif($2, 'default'), '{}', clock_timestamp())`,
	claim: `WITH target_events AS (
    SELECT event_id FROM {t} WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at ASC, created_at ASC LIMIT 7 FOR UPDATE SKIP LOCKED
)
UPDATE {t} AS e SET status = 'DELIVERING', locked_by = 'theirs', locked_at = NOW(), updated_at = NOW()
FROM target_events AS t WHERE e.event_id = t.event_id RETURNING e.event_id::text`,
	done: `UPDATE {t} SET status = 'DELIVERED', delivered_at = NOW(), locked_by = NULL, locked_at = NULL, updated_at = NOW()
WHERE event_id = ANY ($1::text[]::uuid[]) AND status = 'DELIVERING' AND locked_by = 'theirs'`,
	retry: `UPDATE {t} SET status = 'PENDING', available_at = NOW() + interval '0.01 seconds', attempts = attempts + 1, last_error = 'refused',
    locked_by = NULL, locked_at = NULL, updated_at = NOW()
WHERE event_id = ANY ($1::text[]::uuid[]) AND status = 'DELIVERING' AND locked_by = 'theirs'`,
	plain: `ALTER TABLE {t} ALTER COLUMN event_id TYPE text, ALTER COLUMN payload TYPE text USING convert_from(payload, 'UTF8')`,
	fresh: map[string]string{"event_id": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`, "event_type": `"user.created"`, "partition_key": `"user-1"`,
		"payload": `"\\x7b2261223a317d"`, "headers": `{"trace": "t-1"}`, "status": `"PENDING"`, "attempts": "0", "last_error": "null",
		"available_at": "set", "locked_by": "null", "locked_at": "null", "delivered_at": "null", "created_at": "set", "updated_at": "set"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": `"DELIVERED"`, "delivered_at": "now", "updated_at": "now"},
		outbox.OutcomeRetry:     {"attempts": "1", "last_error": `"refused"`, "available_at": "later", "updated_at": "now"},
		outbox.OutcomeDead:      {"status": `"DEAD"`, "attempts": "1", "last_error": `"refused"`, "updated_at": "now"},
		outbox.OutcomeReleased:  {"updated_at": "now"},
	},
	sent: map[string]string{"trace": "t-1", "X-Event-ID": "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"},
}

// flowCatalystV2System deletes what it has delivered.
var flowCatalystV2System = system{
	preset: layout.FlowCatalystV2, id: decimal,
	insert: `INSERT INTO {t} (id, type, message_group, payload, status, retry_count, created_at, updated_at, client_id, payload_size)
SELECT '0HZXEQ5Y8JY5Z', 'AUDIT_LOG', 'order-1', '{"a":1}', 0, 0, now(), CURRENT_TIMESTAMP, 'clt_1', 7 RETURNING id`,
	stress: `INSERT INTO {t} (id, type, message_group, payload, created_at) VALUES ($1, 'EVENT', nullif($2, 'default'), '{}', clock_timestamp())`,
	claim: `WITH claimed AS (SELECT id FROM {t} WHERE status = 0 ORDER BY message_group, created_at LIMIT 7 FOR UPDATE SKIP LOCKED)
UPDATE {t} m SET status = 9, updated_at = NOW() FROM claimed WHERE m.id = claimed.id RETURNING m.id`,
	done:  `DELETE FROM {t} WHERE id = ANY ($1)`,
	retry: `UPDATE {t} SET status = 0, error_message = 'refused', retry_count = retry_count + 1, updated_at = NOW() WHERE id = ANY ($1)`,
	plain: `SELECT 1`,
	fresh: map[string]string{"id": `"0HZXEQ5Y8JY5Z"`, "type": `"AUDIT_LOG"`, "message_group": `"order-1"`, "payload": `"{\"a\":1}"`, "status": "0",
		"retry_count": "0", "created_at": "set", "updated_at": "set", "error_message": "null", "client_id": `"clt_1"`, "payload_size": "7", "headers": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: nil,
		outbox.OutcomeRetry:     {"retry_count": "1", "error_message": `"refused"`, "updated_at": "now"},
		outbox.OutcomeDead:      {"status": "3", "retry_count": "1", "error_message": `"refused"`, "updated_at": "now"},
		outbox.OutcomeReleased:  {"updated_at": "now"},
	},
}

// The outbox framework knows no claims: what it takes it has in memory, and it must not run beside Outrider. Its poll is there
// to compare with ours.
var outboxFrameworkSystem = system{
	preset: layout.OutboxFramework, id: decimal,
	insert: `INSERT INTO {t} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at)
VALUES ('01HZXEQ5Y8JY5Z0000000000AB', 'UserCreated', 'User', '17', 'tenant-1', '{"a": 1}', '{"trace": "t-1"}', 0, 0, clock_timestamp(), clock_timestamp())
RETURNING event_id`,
	plain: `ALTER TABLE {t} ALTER COLUMN payload TYPE text, ALTER COLUMN available_at SET DEFAULT '2026-01-01'`,
	fresh: map[string]string{"event_id": `"01HZXEQ5Y8JY5Z0000000000AB"`, "event_type": `"UserCreated"`, "aggregate_type": `"User"`, "aggregate_id": `"17"`,
		"tenant_id": `"tenant-1"`, "payload": `{"a": 1}`, "headers": `{"trace": "t-1"}`, "status": "0", "attempts": "0", "available_at": "set",
		"created_at": "set", "done_at": "null", "last_error": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": "1", "done_at": "now"},
		outbox.OutcomeRetry:     {"status": "2", "attempts": "1", "last_error": `"refused"`, "available_at": "later"},
		outbox.OutcomeDead:      {"status": "3", "last_error": `"refused"`},
		outbox.OutcomeReleased:  {},
	},
	sent: map[string]string{"trace": "t-1"},
}

// Yantra's processor has no claims either: two of them insert the same jobs. What it has no columns for is not in the row.
var yantraSystem = system{
	preset: layout.Yantra, id: func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) },
	insert: `INSERT INTO {t} (id, aggregate_id, aggregate_type, event_type, payload, status, created_at)
VALUES ('6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11', 'execution-17', 'workflow_execution', 'workflow.triggered', '{"a": 1}', 'pending', clock_timestamp()) RETURNING id::text`,
	plain: `ALTER TABLE {t} ALTER COLUMN id TYPE text, ALTER COLUMN payload TYPE text, ALTER COLUMN aggregate_type SET DEFAULT 'workflow_execution',
    ALTER COLUMN aggregate_id DROP NOT NULL`,
	fresh: map[string]string{"id": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`, "aggregate_id": `"execution-17"`, "aggregate_type": `"workflow_execution"`,
		"event_type": `"workflow.triggered"`, "payload": `{"a": 1}`, "status": `"pending"`, "created_at": "set", "processed_at": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": `"processed"`, "processed_at": "now"},
		outbox.OutcomeRetry:     {},
		outbox.OutcomeDead:      {"status": `"failed"`},
		outbox.OutcomeReleased:  {},
	},
}

// yantraV2System is Yantra's current worker. It marks rows by their ids alone, so it must not run beside Outrider.
var yantraV2System = system{
	preset: layout.YantraV2, id: func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) },
	insert: `INSERT INTO {t} (id, node_execution_id, event_type, payload, status, idempotency_key, attempts, max_attempts, next_retry_at, created_at)
VALUES ('6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11', '6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c12', 'email.send', '{"node_id":"n1"}', 'pending', 'e1-n1-1', 0, 4,
    clock_timestamp(), clock_timestamp()) RETURNING id::text`,
	plain: `ALTER TABLE {t} ALTER COLUMN id DROP DEFAULT; ALTER TABLE {t} ALTER COLUMN id TYPE text, ALTER COLUMN node_execution_id TYPE text, ALTER COLUMN node_execution_id DROP NOT NULL,
    ALTER COLUMN idempotency_key SET DEFAULT gen_random_uuid()::text`,
	fresh: map[string]string{"id": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"`, "node_execution_id": `"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c12"`,
		"event_type": `"email.send"`, "payload": `"{\"node_id\":\"n1\"}"`, "status": `"pending"`, "idempotency_key": `"e1-n1-1"`, "attempts": "0", "max_attempts": "4",
		"last_error": "null", "last_attempt_at": "null", "next_retry_at": "set", "created_at": "set", "processed_at": "null"},
	ends: map[outbox.Outcome]map[string]string{
		outbox.OutcomeDelivered: {"status": `"completed"`, "last_attempt_at": "now", "processed_at": "now"},
		outbox.OutcomeRetry:     {"last_attempt_at": "now", "attempts": "1", "last_error": `"refused"`, "next_retry_at": "later"},
		outbox.OutcomeDead:      {"status": `"dead_letter"`, "last_attempt_at": "now", "attempts": "1", "last_error": `"refused"`},
		outbox.OutcomeReleased:  {"last_attempt_at": "now"},
	},
	sent: map[string]string{"idempotency-key": "e1-n1-1"},
}

// presetTables are the systems that have a preset of a queue.
var presetTables = map[string]system{"flowcatalyst": flowCatalystSystem, "talkie": talkieSystem, "open-outbox": openOutboxSystem,
	"flowcatalyst-v2": flowCatalystV2System, "outbox-framework": outboxFrameworkSystem, "yantra": yantraSystem, "yantra-v2": yantraV2System}

// Each preset is tested.
func TestEveryQueuePresetHasItsTests(t *testing.T) {
	t.Parallel()
	for _, p := range layout.All() {
		if s, ok := presetTables[p.Name]; p.Queue != nil && (!ok || s.preset().Name != p.Name) {
			t.Errorf("layout %s is not among presetTables", p.Name)
		}
	}
}

func TestQueueConformanceOfPresets(t *testing.T) {
	t.Parallel()
	for name, s := range presetTables {
		if s.plain == "" {
			continue // its keys and payloads are text: TestQueueConformance
		}
		t.Run(name, func(t *testing.T) {
			if name == "outbox-framework" && !testenv.Full() {
				t.Skip("TestQueueConformance has it beside the state's tables; make race runs it without them too")
			}
			t.Parallel()
			e := newQueueEnv(t)
			adaptertest.Queue(t, func(t *testing.T) adaptertest.QueueHarness {
				t.Helper()
				e := e.preset(t, s.preset())
				if e.layout.DoneIsDeleted {
					e = e.deleting()
				}
				e.exec(s.in(e.tables[0].Name, s.plain))
				_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
				pgtest.Must(t, err)
				return e.harness()
			})
		})
	}
}

// TestPresetRowsAreAsTheOriginalWritesThem compares all columns of rows that the original's SQL inserted, after each
// outcome. What the original leaves alone is as it was.
func TestPresetRowsAreAsTheOriginalWritesThem(t *testing.T) {
	t.Parallel()
	for name, s := range presetTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newQueueEnv(t)
			for outcome, changed := range s.ends {
				e := db.preset(t, s.preset())
				_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
				pgtest.Must(t, err)
				s.compareRow(t, e, outcome, changed)
			}
		})
	}
}

// compareRow settles the row that the original inserted.
func (s *system) compareRow(t *testing.T, e *queueEnv, outcome outbox.Outcome, changed map[string]string) {
	t.Helper()
	var id string
	table := e.tables[0].Name
	pgtest.Must(t, e.pool.QueryRow(e.ctx, s.in(table, s.insert)).Scan(&id))
	s.wantRow(t, e, "inserted", s.fresh)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	pgtest.Must(t, q.Check(e.ctx))
	rows := claimAll(t, q)
	if len(rows) != 1 || rows[0].ID != id || rows[0].Err != nil || !maps.Equal(rows[0].Headers, s.sent) {
		t.Fatalf("claimed %+v, want row %s with headers %v", rows, id, s.sent)
	}
	r := adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outcome}
	if outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeDead {
		r.Attempts, r.Error = 1, "refused"
	}
	if outcome == outbox.OutcomeRetry {
		r.At = time.Now().Add(time.Hour)
	}
	settle(t, q, r)
	if changed == nil {
		if rows := e.rows(); len(rows) > 0 {
			t.Errorf("%s: %+v is left, want no row", outcome, rows)
		}
		return
	}
	want := maps.Clone(s.fresh)
	maps.Copy(want, changed)
	s.wantRow(t, e, outcome.String(), want)
}

// wantRow compares the only row of a table. Of times it compares whether they are set, at or after the row's
// creation ("now"), or in the future ("later").
func (s *system) wantRow(t *testing.T, e *queueEnv, when string, want map[string]string) {
	t.Helper()
	var text []byte
	pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT to_jsonb(t) FROM "+e.tables[0].Name+" t").Scan(&text))
	var row map[string]json.RawMessage
	pgtest.Must(t, json.Unmarshal(text, &row))
	for column, value := range row {
		got := string(value)
		if w := want[column]; w == "set" || w == "now" || w == "later" {
			var relation string
			pgtest.Must(t, e.pool.QueryRow(e.ctx, fmt.Sprintf(`SELECT CASE WHEN %[1]s > now() + interval '1 minute' THEN 'later'
WHEN %[1]s > %[2]s THEN 'now' WHEN %[1]s IS NOT NULL THEN 'set' ELSE 'null' END FROM %[3]s`, column, e.layout.Columns.Created, e.tables[0].Name)).Scan(&relation))
			if got = relation; w == "now" && got == "set" { // a claim's time is cut to milliseconds
				got = "now"
			}
		}
		if got != want[column] {
			t.Errorf("%s: column %s is %s, want %s", when, column, got, want[column])
		}
	}
	if len(row) != len(want) {
		t.Errorf("%s: the row has %d columns, %d are compared", when, len(row), len(want))
	}
}

// TestPresetTellsWhatATableLacks: a column that is missing, or has another type, is an error at the start and a finding
// of the doctor, with what to do.
func TestPresetTellsWhatATableLacks(t *testing.T) {
	t.Parallel()
	db := newQueueEnv(t)
	for name, c := range map[string]struct {
		system system
		spoil  string
		want   []string
	}{
		"talkie misses":           {talkieSystem, "ALTER TABLE {t} DROP COLUMN last_attempt_at", []string{"column last_attempt_at (claimed) is missing", "add it as: last_attempt_at timestamptz"}},
		"talkie header":           {talkieSystem, "ALTER TABLE {t} DROP COLUMN job_id", nil}, // a header is optional
		"talkie type":             {talkieSystem, "ALTER TABLE {t} ALTER COLUMN published_at TYPE text", []string{"column published_at (done) is text; it must be timestamp"}},
		"open-outbox misses":      {openOutboxSystem, "ALTER TABLE {t} DROP COLUMN locked_by", []string{"column locked_by (owner) is missing", "add it as: locked_by text"}},
		"open-outbox type":        {openOutboxSystem, "ALTER TABLE {t} DROP COLUMN updated_at, ADD COLUMN updated_at date", []string{"column updated_at (updated) is date; it must be timestamp"}},
		"flowcatalyst-v2 misses":  {flowCatalystV2System, "ALTER TABLE {t} DROP COLUMN updated_at CASCADE", []string{"column updated_at (claimed) is missing", "add it as: updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()"}},
		"flowcatalyst-v2 type":    {flowCatalystV2System, "ALTER TABLE {t} ALTER COLUMN retry_count DROP DEFAULT, ALTER COLUMN retry_count TYPE text", []string{"column retry_count (attempts) is text; it must be smallint"}},
		"outbox-framework misses": {outboxFrameworkSystem, "ALTER TABLE {t} DROP COLUMN available_at", []string{"column available_at (next_attempt) is missing", "add it as: available_at timestamptz"}},
		"outbox-framework type":   {outboxFrameworkSystem, "ALTER TABLE {t} ALTER COLUMN attempts TYPE text", []string{"column attempts (attempts) is text; it must be smallint"}},
		"outbox-framework without our indexes": {outboxFrameworkSystem, "DROP INDEX {schema}.outbox_event_outrider_group_idx",
			[]string{"finds the unfinished rows of a group", "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"outbox_event_outrider_group_idx\""}},
		"talkie without our indexes": {talkieSystem, "DROP INDEX {schema}.outbox_outrider_group_idx, {schema}.outbox_outrider_age_idx",
			[]string{"finds the unfinished rows of a group", "outrider init --indexes", "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"outbox_outrider_group_idx\""}},
		"yantra misses": {yantraSystem, "ALTER TABLE {t} DROP COLUMN processed_at", []string{"column processed_at (done) is missing", "add it as: processed_at timestamp"}},
		"yantra type":   {yantraSystem, "ALTER TABLE {t} ALTER COLUMN processed_at TYPE text", []string{"column processed_at (done) is text; it must be timestamp"}},
		"yantra without our indexes": {yantraSystem, "DROP INDEX {schema}.outbox_messages_outrider_group_idx",
			[]string{"finds the unfinished rows of a group", "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"outbox_messages_outrider_group_idx\""}},
	} {
		e := db.preset(t, c.system.preset())
		_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
		pgtest.Must(t, err)
		schema, _, _ := strings.Cut(e.tables[0].Name, ".")
		q := e.queue()
		if err := q.Check(e.ctx); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		pgtest.Must(t, q.Close())
		e.exec(strings.NewReplacer("{t}", e.tables[0].Name, "{schema}", schema).Replace(c.spoil))
		q = e.queue()
		err = q.Check(e.ctx)
		if c.want == nil {
			pgtest.Must(t, err)
			_, err = Init(e.ctx, e.pool, e.layout, true, e.tables...) // makes no index of it
			pgtest.Must(t, err)
		} else {
			pgtest.WantError(t, err, c.want...)
		}
		for _, want := range c.want {
			if found := findings(t, q); !strings.Contains(found, strings.ReplaceAll(want, "; ", " -> ")) {
				t.Errorf("%s: the doctor does not say %q:\n%s", name, want, found)
			}
		}
		pgtest.Must(t, q.Close())
	}
}

// A row that the original's crash left as being processed comes back after the timeout.
func TestPresetRecoversWhatTheOriginalLeft(t *testing.T) {
	t.Parallel()
	for name, s := range presetTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.claim == "" {
				t.Skip("it has no status for a row that is being processed")
			}
			e := newQueueEnv(t).preset(t, s.preset())
			_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
			pgtest.Must(t, err)
			table := e.tables[0].Name
			var id string
			pgtest.Must(t, e.pool.QueryRow(e.ctx, s.in(table, s.insert)).Scan(&id))
			e.exec(s.in(table, s.claim))
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			if n, err := q.Recover(e.ctx); n != 0 || err != nil || len(claimAll(t, q)) > 0 {
				t.Errorf("a row that the original holds was recovered or claimed: %d, %v", n, err)
			}
			e.each("UPDATE {t} t SET {set_claimed} = now() - interval '1 h'")
			if n, err := q.Recover(e.ctx); n != 1 || err != nil {
				t.Errorf("recovered %d, %v", n, err)
			}
			want := maps.Clone(s.fresh)
			maps.Copy(want, s.ends[outbox.OutcomeReleased])
			if c := e.layout.Columns; !e.layout.ClaimEnds && c.Claimed != c.Updated {
				want[e.layout.Columns.Claimed] = "set"
			}
			s.wantRow(t, e, "recovered", want)
			if rows := claimAll(t, q); len(rows) != 1 || rows[0].ID != id {
				t.Errorf("claimed %v, want row %s", rows, id)
			}
		})
	}
}

// TestG3_PresetsFindASettleWhoseAnswerWasLost: what was written counts when it is given again, also where the end of a claim
// leaves no time behind; what somebody else has taken meanwhile is lost.
func TestG3_PresetsFindASettleWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	for name, s := range presetTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newQueueEnv(t)
			for outcome := range s.ends {
				e := db.preset(t, s.preset())
				_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
				pgtest.Must(t, err)
				e.exec(s.in(e.tables[0].Name, s.insert))
				q := e.queue()
				claim := claimAll(t, q)[0].Claim
				table := q.table(claim.Table)
				h := table.holds[claim.Key]
				r := adapters.ClaimResult{Claim: claim, Outcome: outcome, At: time.Now().Add(time.Hour)}
				settle(t, q, r)
				table.hold(claim.Key, h) // as if the answer had not come
				h.tried = true
				settle(t, q, r) // which is not lost
				if e.layout.Claimless() {
					pgtest.Must(t, q.Close())
					continue
				}

				table.hold(claim.Key, h)
				if s.ends[outcome] == nil {
					pgtest.Must(t, q.Close())
					continue // there is no row that somebody else could have
				}
				e.each("UPDATE {t} t SET {set_status} = {processing}, {set_claimed} = now() + interval '1 s'")
				lost, err := q.Settle(e.ctx, []adapters.ClaimResult{r})
				back := outcome == outbox.OutcomeRetry || outcome == outbox.OutcomeReleased // whose row may be anybody's by now
				if err != nil || (len(lost) == 0) != back {
					t.Errorf("%v: with another claim %d lost, %v", outcome, len(lost), err)
				}
				pgtest.Must(t, q.Close())
			}
		})
	}
}
