package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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
