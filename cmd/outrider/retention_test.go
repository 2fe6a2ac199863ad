package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
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
