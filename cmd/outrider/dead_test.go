package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/testenv"
)

// An operator, with a role that has what init prints for one and no more, sees the dead
// rows of a queue's tables beside parked messages, by route, and redrives and purges them.
func TestParkedSeesDeadRowsOfQueues(t *testing.T) {
	t.Parallel()
	address := testenv.Postgres(t)
	role := "operator_" + strings.ToLower(rand.Text())
	createRole(t, address, role)
	as := func(role string) *site {
		s := newSite(t, "")
		s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: flowcatalyst, url: %q}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: shop, to: nowhere, match: {types: ["order.*"]}}
  rest: {from: shop, to: nowhere, match: {types: ["user.*"]}}
`, asRole(t, address, role)))
		return s
	}
	printed := as("").call("init", "--print", "--operator", role)
	if printed.code != 0 {
		t.Fatal(printed)
	}
	runSQL(t, address, printed.out)
	runSQL(t, address, `INSERT INTO outbox_events (id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message)
		SELECT 'e' || i, 'EVENT', 'g' || i % 2, json_build_object('type', CASE WHEN i < 5 THEN 'order.made' WHEN i < 7 THEN 'user.made' ELSE 'other' END),
			'FAILED', 3, timestamp '2026-01-01' + i * interval '1 min', now(), 'answers 42' || i FROM generate_series(1, 7) i`)
	runSQL(t, address, `INSERT INTO outrider_cursor (route, slot) VALUES ('orders', 0);
		INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, last_error, event_id, event_type, position, metadata, payload)
		VALUES ('orders', 0, 1, 'g', 'dead', 1, 'why', 'parked-1', 't', 1, '{}', '1')`)
	for _, st := range []step{
		{args: "parked list", out: []string{"TABLE", "parked-1", "e1", "EVENT:g1", "order.made", "outbox_events", "answers 427"}},
		{args: "parked list --route rest -o json", out: []string{`"id": "e5"`, `"table": "outbox_events"`, `"source": "shop"`}},
		{args: "parked list --limit 2", out: []string{"parked-1", "e1"}, err: []string{"more messages match"}},
		{args: "parked list --route rest --older-than 1ms -o json", out: []string{`"attempts": 4`}}, // three retries in the table
		{args: "event e2", out: []string{"failed attempts  4"}, err: []string{"no relay answers"}},
		{args: "parked purge --route rest --older-than 1h --dry-run", out: []string{"0 messages would be purged"}},
		{args: "parked show e2", out: []string{"table outbox_events of source shop", "answers 422", `"type": "order.made"`}},
		{args: "status -o json", out: []string{`"dead_rows": 4`, `"dead": 5`, `"dead_rows": 2`}},
		{args: "parked redrive --type order.made --error ANSWERS --dry-run", out: []string{"orders  dead    4", "4 messages would be redriven"}},
		{args: "parked redrive --route orders --type order.made --limit 2 --rate 1000/s --yes --by alice", out: []string{"2 messages redriven"}, err: []string{"arrives after the messages of its group"}},
		{args: "parked redrive e3 --by alice", out: []string{"1 message redriven"}, err: []string{"arrives after the messages of its group"}},
		{args: "parked redrive e3", code: 1, err: []string{"can be redriven"}},
		{args: "parked skip e4", code: 1, err: []string{"can be skipped"}},
		{args: "parked purge --route rest --yes", out: []string{"2 messages purged"}},
		{args: "parked purge --all --yes", out: []string{"3 messages purged"}},
		{args: "parked list", out: []string{"no parked message matches"}},
	} {
		st.run(t, as(role))
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var rows, audit string
	if err := errors.Join(
		conn.QueryRow(t.Context(), "SELECT string_agg(concat(id, status, retry_count), ' ' ORDER BY id) FROM outbox_events").Scan(&rows),
		conn.QueryRow(t.Context(), `SELECT string_agg(concat(by, role, action, changed, filter->>'route', filter->>'event'), ' ' ORDER BY id)
			FROM outrider_audit WHERE action = 'redrive' AND (filter ? 'event' OR filter ? 'table')`).Scan(&audit)); err != nil {
		t.Fatal(err)
	}
	who := "alice" + role
	if want := who + "redrive0ordersbegin " + who + "redrive2ordersdone " + who + "redrive1"; rows != "e1PENDING0 e2PENDING0 e3PENDING0" || audit != want {
		t.Errorf("rows %s\naudit %s, want %s", rows, audit, want)
	}
}

// deadPreset is a preset with rows that its original gave up.
type deadPreset struct {
	insert   string   // three dead rows, the first with all there is, and one that is not dead
	id       string   // of the first
	show     []string // of the first
	redriven string   // columns of the first row that a redrive changes, and others, as text
	want     string   // and what they are then
	left     string   // query: what is left in the end
	remains  string
}

// Operators work on the dead rows of each preset's table as on parked messages, whoever gave them up, and see the
// message that a row stands for.
func TestParkedWorksOnTheTablesOfPresets(t *testing.T) {
	t.Parallel()
	const id = "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c1"
	for layout, p := range map[string]deadPreset{
		"talkie": {
			insert: `INSERT INTO outbox (id, job_id, topic, key, payload_json, status, retry_count, last_error, last_attempt_at, next_attempt_at)
				SELECT i, '` + id + `1', 'jobs', 'k' || i, '{"a": 1}', CASE i WHEN 4 THEN 'canceled' ELSE 'dead_lettered' END, 5, 'why ' || i, '2026-01-01', '2026-01-01' FROM generate_series(1, 4) i`,
			id: "1", show: []string{"status      dead", "in          table outbox of source shop", "attempts    5", "type        jobs", "group       k1", "last error  why 1",
				"metadata    x-correlation-id: " + id + "1", "metadata    outrider_group: k1", `"a": 1`},
			redriven: "SELECT concat_ws(' ', status, retry_count, last_error, last_attempt_at::date, next_attempt_at > '2026-06-01', published_at) FROM outbox WHERE id = 1",
			want:     "pending 0 why 1 2026-01-01 t",
			left:     "SELECT string_agg(concat_ws(' ', id, status), ', ' ORDER BY id) FROM outbox", remains: "1 pending, 4 canceled",
		},
		"open-outbox": {
			insert: `INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, attempts, last_error, available_at, updated_at)
				SELECT ('` + id + `' || i)::uuid, 'user.created', 'k' || i, '{"a":1}', '{"trace": "t-1"}', CASE i WHEN 4 THEN 'DELIVERED' ELSE 'DEAD' END, 25, 'why ' || i, '2026-01-01', '2026-01-01' FROM generate_series(1, 4) i`,
			id: id + "1", show: []string{"table openoutbox_events of source shop", "attempts    25", "metadata    trace: t-1", "metadata    X-Event-ID: " + id + "1", `"a": 1`},
			redriven: "SELECT concat_ws(' ', status, attempts, last_error, available_at > '2026-06-01', updated_at > '2026-06-01', locked_at) FROM openoutbox_events WHERE partition_key = 'k1'",
			want:     "PENDING 0 why 1 t t",
			left:     "SELECT string_agg(concat_ws(' ', partition_key, status), ', ' ORDER BY partition_key) FROM openoutbox_events", remains: "k1 PENDING, k4 DELIVERED",
		},
		"flowcatalyst-v2": { // which has five statuses of dead rows
			insert: `INSERT INTO outbox_messages (id, type, message_group, payload, status, retry_count, error_message, created_at, updated_at)
				SELECT 'm' || i, 'EVENT', 'k' || i, '{"type": "order.made"}', (ARRAY[2, 4, 6, 1])[i], 3, 'why ' || i, '2026-01-01', '2026-01-01' FROM generate_series(1, 4) i`,
			id: "m1", show: []string{"table outbox_messages of source shop", "type        order.made", "group       k1", "metadata    outrider_kind: EVENT"},
			redriven: "SELECT concat_ws(' ', status, retry_count, error_message, updated_at > '2026-06-01') FROM outbox_messages WHERE id = 'm1'",
			want:     "0 0 why 1 t",
			left:     "SELECT string_agg(concat_ws(' ', id, status), ', ' ORDER BY id) FROM outbox_messages", remains: "m1 0, m4 1",
		},
	} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			address := testenv.Postgres(t)
			s := newSite(t, "")
			s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: %s, url: %q}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: shop, to: nowhere}
`, layout, address))
			s.must("init")
			runSQL(t, address, p.insert)
			one := func(query string) (text string) {
				t.Helper()
				conn, err := pgx.Connect(t.Context(), address)
				if err == nil {
					err = errors.Join(conn.QueryRow(t.Context(), query).Scan(&text), conn.Close(context.Background()))
				}
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			for _, st := range []step{
				{args: "status -o json", out: []string{`"dead_rows": 3`}},
				{args: "parked list", out: []string{"why 1", "why 2", "why 3", "dead"}},
				{args: "parked list --error WHY --group k2 -o json", out: []string{`"last_error": "why 2"`}},
				{args: "parked show " + p.id, out: p.show},
				{args: "parked redrive --all --dry-run", out: []string{"3 messages would be redriven"}},
				{args: "parked redrive " + p.id, out: []string{"1 message redriven"}, err: []string{"arrives after the messages of its group"}},
				{args: "parked redrive " + p.id, code: 1, err: []string{"can be redriven"}},
			} {
				st.run(t, s)
			}
			if got := one(p.redriven); got != p.want {
				t.Errorf("redriven: %s, want %s", got, p.want)
			}
			step{args: "parked purge --all --yes", out: []string{"2 messages purged"}}.run(t, s)
			if got := one(p.left); got != p.remains {
				t.Errorf("left: %s, want %s", got, p.remains)
			}
			if doctor := s.call("doctor"); strings.Contains(doctor.out, "no index finds them") {
				t.Error(doctor.out)
			}
			for index := range strings.FieldsSeq(one("SELECT string_agg(indexrelid::regclass::text, ' ') FROM pg_index WHERE indexrelid::regclass::text LIKE '%_outrider_dead_idx'")) {
				runSQL(t, address, "DROP INDEX "+index)
			}
			if doctor := s.call("doctor"); !strings.Contains(doctor.out, "no index finds them") || !strings.Contains(doctor.out, "_outrider_dead_idx") {
				t.Errorf("the doctor does not miss the index of dead rows:\n%s", doctor.out)
			}
		})
	}
}

// The same with a queue in SQLite. What is recorded of a command goes into the transaction that changes the rows if the state is in the same
// file, whose one writer that transaction is.
func TestParkedWorksOnASQLiteQueue(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{"state in the same file": "", "by another path": "./app.db", "state of its own": "state.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			file, dir := s.db, filepath.Dir(s.db)
			beside := ""
			if state != "" {
				beside = fmt.Sprintf("state: {url: %q}\n", "sqlite:"+dir+"/"+state)
			}
			s.write(fmt.Sprintf(`
admin: {listen: off}
%ssources:
  shop: {type: sqlite, path: %q, layout: outbox-framework}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: shop, to: nowhere}
`, beside, file))
			s.must("init")
			db, err := sqlite.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.ExecContext(t.Context(), `INSERT INTO outbox_event (event_id, event_type, payload, status, attempts, last_error, available_at, created_at)
				SELECT 'e' || value, 'made', '{}', 3, 9, 'why', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.00' || value || 'Z' FROM json_each('[1, 2, 3, 4, 5]')`); err != nil {
				t.Fatal(err)
			}
			for _, st := range []step{
				{args: "parked redrive e1 --by alice", out: []string{"1 message redriven"}, err: []string{"arrives after"}},
				{args: "parked purge e2 --by alice", out: []string{"1 message purged"}},
				{args: "parked redrive --route orders --limit 2 --yes", out: []string{"2 messages redriven"}, err: []string{"arrives after"}},
				{args: "parked purge --all --yes", out: []string{"1 message purged"}},
			} {
				st.run(t, s)
			}
			var rows, audit string
			if err := db.QueryRowContext(t.Context(), "SELECT group_concat(event_id || status || attempts, ' ' ORDER BY event_id) FROM outbox_event").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			kept := db
			if state == "state.db" {
				if kept, err = sqlite.Open(filepath.Join(dir, state)); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = kept.Close() }()
			}
			if err := kept.QueryRowContext(t.Context(), "SELECT group_concat(by || action || changed, ' ' ORDER BY id) FROM outrider_audit WHERE by = 'alice' AND changed > 0").Scan(&audit); err != nil {
				t.Fatal(err)
			}
			if rows != "e100 e300 e400" || audit != "aliceredrive1 alicepurge1" {
				t.Errorf("rows %s, audit %s", rows, audit)
			}
		})
	}
}
