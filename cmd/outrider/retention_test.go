package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/sqlite"
)

func TestRetentionCountsAndRemoves(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	s.must("init")
	step{args: "retention", out: []string{"no source has a retention"}}.run(t, s)
	step{args: "retention -o json", out: []string{`"retention": []`}}.run(t, s)
	for _, group := range []string{"a", "b", "c"} {
		s.must("publish", "--type", "t", "--group", group, "--payload", "1")
	}
	p := s.start("run")
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(s.must("status", "-o", "json"), `"position": 3`) {
		if time.Now().After(deadline) {
			t.Fatalf("not delivered within a minute:\n%s", s.must("status"))
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the relay ended with %v", err)
	}
	s.must("publish", "--type", "t", "--payload", "1")
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: sqlite, path: %q, retention: {keep: 0s}}\n%s", s.db, toDiscard))
	step{args: "retention", out: []string{"WOULD REMOVE", "3 rows", "orders for "}}.run(t, s)
	step{args: "retention -o json", out: []string{`"removed": false`, `"rows": 3`, `"orders": `}}.run(t, s)
	step{args: "retention --once", out: []string{"REMOVED", "3 rows"}}.run(t, s)
	step{args: "retention --once", out: []string{"REMOVED", "0 rows"}}.run(t, s)
	step{args: "retention now", code: 2, err: []string{"takes no argument"}}.run(t, s)
}

// Delivered rows of a queue are counted, removed once, and what retention needs is made by init and checked by doctor.
func TestRetentionOfAQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	queue := func(more string) {
		s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: sqlite, layout: flowcatalyst, path: %q%s}\n%s", s.db, more, toDiscard))
	}
	queue("")
	s.must("init")
	db, err := sqlite.Open(s.db)
	if err != nil {
		t.Fatal(err)
	}
	for id, status := range map[string]string{"old": "COMPLETED", "waiting": "PENDING", "dead": "FAILED", "held": "PROCESSING"} {
		_, err = db.ExecContext(t.Context(), `INSERT INTO outbox_events (id, type, payload, status, created_at, processed_at) VALUES (?, 'EVENT', '{}', ?, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')`, id, status)
		if err != nil {
			t.Fatal(err)
		}
	}
	queue(", retention: {keep: 168h}")
	step{args: "doctor", code: 1, out: []string{"retention", "outbox_events_outrider_done_idx is missing"}}.run(t, s)
	step{args: "retention", code: 1, err: []string{"outbox_events_outrider_done_idx is missing", "outrider init"}}.run(t, s)
	s.must("init")
	step{args: "doctor", out: []string{"delivered rows are removed 168h0m0s after they were created"}}.run(t, s)
	step{args: "retention", out: []string{"WOULD REMOVE", "1 row"}}.run(t, s)
	step{args: "retention --once", out: []string{"REMOVED", "1 row"}}.run(t, s)
	step{args: "retention --once", out: []string{"REMOVED", "0 rows"}}.run(t, s)
	var left int
	if err := errors.Join(db.QueryRowContext(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&left), db.Close()); err != nil || left != 3 {
		t.Errorf("%d rows are left, %v; want those that are not delivered", left, err)
	}
}
