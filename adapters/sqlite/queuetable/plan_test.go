package queuetable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// plan is how SQLite runs a statement.
func (e *env) plan(query string, args ...any) string {
	e.t.Helper()
	rows, err := e.db.Query("EXPLAIN QUERY PLAN "+query, args...)
	must(e.t, err)
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var line string
		must(e.t, rows.Scan(&id, &parent, &unused, &line))
		lines = append(lines, line)
	}
	must(e.t, errors.Join(rows.Err(), rows.Close())) //nolint:sqlclosecheck // a fault ends the test
	return strings.Join(lines, "\n")
}

// finished inserts rows that are done, with a few that wait.
func (e *env) finished(t *testing.T, n int) []adaptertest.QueueRow {
	t.Helper()
	e.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO outbox_event (event_id, event_type, aggregate_id, payload, status, available_at, created_at)
SELECT 'done-' || i, 't', 'a' || (i % 50), '{}', 1, '2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z' FROM n`, n)
	rows := make([]adaptertest.QueueRow, 3)
	for i := range rows {
		rows[i] = adaptertest.QueueRow{Table: "outbox_event", Key: "new-" + string(rune('a'+i)), Group: "a1", Payload: "{}", CreatedAt: time.Now().Add(time.Duration(i-60) * time.Second)}
	}
	e.insert(rows...)
	return rows
}

// TestG8_ClaimsAreFlatBesideFinishedRows: whatever is kept and whatever statistics say, nothing that a claim, a settle or a count reads is
// finished, and nothing is sorted.
func TestG8_ClaimsAreFlatBesideFinishedRows(t *testing.T) {
	t.Parallel()
	e := preset(t, layout.OutboxFramework())
	rows := e.finished(t, 200_000)
	e.exec("ANALYZE")
	s := e.statements(e.tables[0])
	given := sqltext.Args{"limit": 1, "group": "a1", "created": "2020", "key": "x", "keys": []any{"k", "l"}, "seen": 1, "newest": 2, "attempts": 0, "error": "e", "due": nil, "stamp": nil, "done": "now", "updated": "now"}
	for name, st := range map[string]struct{ text, by string }{
		"rows in no order": {s.alone, s.byGroup.name}, "next rows": {s.aloneOn, s.byGroup.name},
		"groups": {s.groups, s.byGroup.name}, "next groups": {s.groupsOn, s.byGroup.name},
		"a group": {s.ofGroup, s.byGroup.name}, "its next rows": {s.ofGroupOn, s.byGroup.name},
		"newer": {s.newer, "INTEGER PRIMARY KEY"}, "chosen rows": {s.read, "autoindex"},
		"done": {s.Done, "autoindex"}, "retry": {s.Retry, "autoindex"},
	} {
		query, args := sqltext.Bind(st.text, given)
		plan := e.plan(query, args...)
		if !strings.Contains(plan, st.by) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s, by %s:\n%s", name, st.by, plan)
		}
	}
	q := e.queue()
	defer func() { must(t, q.Close()) }()
	got, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Limit: 10})
	must(t, err)
	if len(got) != len(rows) || got[0].ID != rows[0].Key || got[2].ID != rows[2].Key {
		t.Errorf("claimed %d rows", len(got))
	}
	if b, err := q.Unfinished(t.Context(), 100); err != nil || b.Rows != 3 || b.Oldest.IsZero() {
		t.Errorf("counted %+v, %v", b, err)
	}
}

// TestG3_DeadRowsOnSQLite: dead rows are listed, counted, and made to wait again, and the queue finds them.
func TestG3_DeadRowsOnSQLite(t *testing.T) {
	t.Parallel()
	e := preset(t, layout.OutboxFramework())
	e.fenced = false
	q := e.queue()
	defer func() { must(t, q.Close()) }()
	all := adapters.ClaimRequest{Slots: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Limit: 10, Wants: 1}
	for i, key := range []string{"k1", "k2", "k3"} {
		e.insert(adaptertest.QueueRow{Table: "outbox_event", Key: key, Type: "t" + key, Group: "g" + key, Payload: "{}", CreatedAt: time.Now().Add(time.Duration(i-9) * time.Second)})
	}
	rows, err := q.Claim(t.Context(), all)
	must(t, err)
	var results []adapters.ClaimResult
	for _, r := range rows {
		results = append(results, adapters.ClaimResult{Claim: r.Claim, Outcome: outbox.OutcomeDead, Attempts: 1, Error: "refused " + r.ID})
	}
	lost, err := q.Settle(t.Context(), results)
	if err != nil || len(lost) > 0 || len(rows) != 3 {
		t.Fatalf("%d rows, %d lost, %v", len(rows), len(lost), err)
	}
	page, err := q.Dead(t.Context(), adapters.DeadFilter{Limit: 2, Payload: true})
	must(t, err)
	if len(page) != 2 || page[0].Row.ID != "k1" || page[1].Error != "refused k2" || string(page[0].Row.Payload) != "{}" || page[0].Row.Group != "gk1" {
		t.Fatalf("the first page is %+v", page)
	}
	next, err := q.Dead(t.Context(), adapters.DeadFilter{After: page[1].At})
	must(t, err)
	found, err := q.Dead(t.Context(), adapters.DeadFilter{Error: "K2"})
	must(t, err)
	if len(next) != 1 || next[0].Row.ID != "k3" || len(found) != 1 || found[0].Row.ID != "k2" {
		t.Errorf("next %+v, found %+v", next, found)
	}
	counts, more, err := q.CountDead(t.Context(), 10, true)
	if err != nil || more || len(counts) != 3 {
		t.Errorf("counted %+v, %t, %v", counts, more, err)
	}
	refused := true
	changed, err := q.ChangeDead(t.Context(), adapters.ParkedRedrive, []adapters.DeadKey{page[0].At, page[1].At}, func(_ context.Context, n int) error { refused = n != 2; return nil })
	if err != nil || changed != 2 || refused {
		t.Errorf("redriven %d, %v", changed, err)
	}
	if n, err := q.ChangeDead(t.Context(), adapters.ParkedPurge, []adapters.DeadKey{page[0].At, next[0].At}, func(context.Context, int) error { return nil }); err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}
	var again []string
	for len(again) < 2 { // the next scan finds what others have changed
		rows, err := q.Claim(t.Context(), all)
		must(t, err)
		for _, r := range rows {
			again = append(again, r.ID)
		}
	}
	if slices.Sort(again); !slices.Equal(again, []string{"k1", "k2"}) {
		t.Errorf("claimed again %v", again)
	}
	first, err := q.IsFirst(t.Context(), adapters.DeadKey{Table: "outbox_event", Key: "k1"})
	if err != nil || !first {
		t.Errorf("k1 is first: %t, %v", first, err)
	}
	event, err := q.Find(t.Context(), "k2", 5)
	if err != nil || len(event.Rows) != 1 || event.Rows[0].Status != adapters.RowWaiting {
		t.Errorf("found %+v, %v", event, err)
	}
	for _, f := range q.Examine(t.Context()) {
		if f.Level != adapters.LevelOK {
			t.Errorf("doctor: %+v", f)
		}
	}
}

// TestG13_RowsWithTheRowidOfADeletedOne: where delivered rows are deleted the next row gets the rowid of the newest one. The
// very next claim finds it.
func TestG13_RowsWithTheRowidOfADeletedOne(t *testing.T) {
	t.Parallel()
	e := preset(t, layout.OutboxFramework())
	e.fenced, e.layout.DoneIsDeleted = false, true
	q := e.queue()
	defer func() { must(t, q.Close()) }()
	all := adapters.ClaimRequest{Slots: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Limit: 10, Wants: 1}
	for i := range 20 {
		e.insert(adaptertest.QueueRow{Table: "outbox_event", Key: "k" + string(rune('a'+i)), Group: "g", Payload: "{}", CreatedAt: time.Now()})
		rows, err := q.Claim(t.Context(), all)
		if err != nil || len(rows) != 1 {
			t.Fatalf("row %d: claimed %d, %v", i, len(rows), err)
		}
		lost, err := q.Settle(t.Context(), []adapters.ClaimResult{{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered}})
		if err != nil || len(lost) > 0 {
			t.Fatalf("row %d: %d lost, %v", i, len(lost), err)
		}
	}
}

// A row that is being processed and does not say since when is put back by no relay: doctor says that it holds its group up.
func TestDoctorNamesClaimsWithoutATime(t *testing.T) {
	t.Parallel()
	e := preset(t, layout.FlowCatalyst())
	e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "0000000000001", Group: "g", Payload: "{}", CreatedAt: time.Now()})
	e.exec("UPDATE outbox_events SET status = 'PROCESSING'")
	q := e.queue()
	defer func() { must(t, q.Close()) }()
	if n, err := q.Recover(t.Context()); err != nil || n != 0 {
		t.Fatalf("recovered %d rows, %v", n, err)
	}
	if !slices.ContainsFunc(q.Examine(t.Context()), func(f adapters.Finding) bool { return strings.Contains(f.Text, "1 have no time in processed_at") }) {
		t.Errorf("doctor says %+v", q.Examine(t.Context()))
	}
}
