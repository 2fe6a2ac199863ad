package queuetable

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// findings of a queue, one line each.
func findings(t *testing.T, q *Queue) string {
	t.Helper()
	var lines []string
	for _, f := range q.Examine(t.Context()) {
		lines = append(lines, f.Level.String()+" "+f.Subject+": "+f.Text+" -> "+f.Fix)
		if f.Level >= adapters.LevelWarning && f.Fix == "" {
			t.Errorf("%s has no fix: %s", f.Subject, f.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func TestExamineTellsWhatAQueueLacks(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	role := fmt.Sprintf("outrider_examine_%d", os.Getpid())
	base.exec("CREATE ROLE " + role + " LOGIN")
	defer base.exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	for name, c := range map[string]struct {
		spoil string // of the events' table {t}
		as    string // role
		want  []string
	}{
		"in order": {"SELECT", "", []string{"columns: all there", "privileges: its rows may be", "indexes: they find", "being processed: none", "autovacuum is on"}},
		"no table": {"DROP TABLE {t}", "", []string{"broken table", "does not exist", `create it with "outrider init"`}},
		"no column": {"ALTER TABLE {t} RENAME COLUMN retry_count TO tries", "",
			[]string{"broken table", "column retry_count (attempts) is missing", "add it as: retry_count INT"}},
		"no index by age": {"DROP INDEX {schema}.outbox_events_outrider_age_idx", "",
			[]string{"warning table", "none has the unfinished rows by age", "-> CREATE INDEX CONCURRENTLY"}},
		"no index": {"DROP INDEX {schema}.idx_outbox_events_status, {schema}.outbox_events_outrider_waiting_idx", "",
			[]string{"broken table", "none finds the unfinished rows of a group", "-> CREATE INDEX CONCURRENTLY"}},
		"stuck": {"INSERT INTO {t} (id, type, payload, status, created_at, processed_at) VALUES ('s', 'E', '{}', 'PROCESSING', now(), now() - interval '2 h')", "",
			[]string{"warning table", "1 are marked so for longer than claims.timeout, 5m0s; the longest for 2h0m", "outrider run"}},
		"claimed at no time": {"INSERT INTO {t} (id, type, payload, status, created_at) VALUES ('s', 'E', '{}', 'PROCESSING', now())", "",
			[]string{"warning table", "1 have no time in processed_at, and 0 are marked so", "reset them to waiting"}},
		"no right to settle": {"GRANT USAGE ON SCHEMA {schema} TO " + role + "; GRANT SELECT ON {t} TO " + role, role,
			[]string{"broken table", "may not settle its rows", "-> GRANT UPDATE ("}},
		"an operator's login": {"GRANT USAGE ON SCHEMA {schema} TO " + role + "; GRANT SELECT, DELETE, UPDATE (status, retry_count) ON {t} TO " + role, role,
			[]string{"ok table", "privileges: checked as an operator"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := base.flowCatalyst(t, true)
			table := e.tables[0].Name
			schema, _, _ := strings.Cut(table, ".")
			e.exec(strings.NewReplacer("{t}", table, "{schema}", schema).Replace(c.spoil))
			if c.as != "" {
				other := strings.Replace(e.url, "postgres://postgres@", "postgres://"+c.as+"@", 1)
				if other == e.url {
					t.Skip("the test server's user is not postgres, so its URL cannot be made another user's")
				}
				e.url = other
			}
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			got := findings(t, q)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing:\n%s", want, got)
				}
			}
			if name == "in order" && (strings.Contains(got, "broken") || strings.Contains(got, "warning")) {
				t.Errorf("something is wrong with what is in order:\n%s", got)
			}
		})
	}
}

// A queue that wants to be notified is examined for it: whether notifications
// pass, and who sends any. One that polls is not.
func TestExamineTellsWhetherAQueueIsNotified(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	pooler := pgtest.StartPooler(t, base.url)
	const heard = "ok notifications: they are heard"
	for name, c := range map[string]struct {
		url     string
		wake    postgres.Wake
		trigger bool
		want    []string
		not     string
	}{
		"polls":      {base.url, postgres.WakePoll, false, nil, "notifications"},
		"no trigger": {base.url, postgres.WakeNotify, false, []string{heard, "outbox_events\": trigger outrider_wake: none", "outbox_dispatch_jobs\": trigger outrider_wake: none"}, "broken"},
		"trigger":    {base.url, postgres.WakeNotify, true, []string{heard, "outbox_events\": trigger outrider_wake: every INSERT", "outbox_dispatch_jobs\": trigger outrider_wake: every INSERT"}, "none:"},
		"pooler":     {pooler, postgres.WakeNotify, false, []string{"broken notifications: a notification that was sent is not heard"}, heard},
	} {
		t.Run(name, func(t *testing.T) {
			e := base.flowCatalyst(t, true)
			if c.trigger {
				_, err := postgres.InitWake(e.ctx, e.pool, e.tables[0].Name, e.tables[1].Name)
				pgtest.Must(t, err)
			}
			q, err := New(e.ctx, Config{URL: c.url, Tables: e.tables, Layout: e.layout, Wake: c.wake})
			pgtest.Must(t, err)
			defer func() { pgtest.Must(t, q.Close()) }()
			got := findings(t, q)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing:\n%s", want, got)
				}
			}
			if strings.Contains(got, c.not) {
				t.Errorf("%q is there:\n%s", c.not, got)
			}
		})
	}
}

func TestWaitingShowsWhatRoutesMatchBy(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.exec("INSERT INTO " + e.tables[0].Name + ` (id, type, payload, status, created_at) VALUES
('1', 'EVENT', '{"type": "order.created"}', 'PENDING', now()), ('2', 'EVENT', '{}', 'PENDING', now()), ('3', 'EVENT', '{}', 'COMPLETED', now())`)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	rows, err := q.Waiting(t.Context(), 10)
	pgtest.Must(t, err)
	got := map[string]string{}
	for _, r := range rows {
		got[r.ID] = r.Type
	}
	if len(got) != 2 || got["1"] != "order.created" || got["2"] != "EVENT" {
		t.Errorf("got %v", got)
	}
	if rows, err = q.Waiting(t.Context(), 1); err != nil || len(rows) != 1 {
		t.Errorf("at most one: %d, %v", len(rows), err)
	}
}
