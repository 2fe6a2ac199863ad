package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// parkedSite has delivered three messages to a receiver that refused them.
func parkedSite(t *testing.T, accept *atomic.Bool) *site {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !accept.Load() {
			http.Error(w, "no \x1b[31mthanks", http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(api.Close)
	s := newSite(t, fmt.Sprintf("destinations:\n  api: {type: http, url: %q}\nroutes:\n  orders: {from: app, to: api}\n", api.URL))
	s.must("init")
	for _, id := range []string{"a", "b", "c"} {
		s.must("publish", "--type", "order.created", "--group", "g-"+id, "--id", id, "--header", "h=1", "--payload", `{"id":"`+id+`"}`)
	}
	s.runUntil(func() bool { return len(s.parked("--status", "dead")) == 3 })
	return s
}

// runUntil runs the relay in this process until the condition holds.
func (s *site) runUntil(done func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	ended := make(chan result, 1)
	go func() { ended <- call(ctx, "", "run", "--config", s.config) }()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case r := <-ended:
			s.t.Fatalf("run ended: %v", r)
		}
	}
	cancel()
	if r := <-ended; r.code != exitOK {
		s.t.Fatal(r)
	}
}

// parked lists parked messages.
func (s *site) parked(filter ...string) []parkedMessage {
	s.t.Helper()
	var list struct {
		Parked []parkedMessage `json:"parked"`
	}
	r := s.call(append([]string{"parked", "list", "-o", "json"}, filter...)...)
	if err := json.Unmarshal([]byte(r.out), &list); err != nil && r.code == exitOK {
		s.t.Fatalf("%v: %v", err, r)
	}
	return list.Parked
}

func TestParkedMessagesAreShown(t *testing.T) {
	t.Parallel()
	s := parkedSite(t, &atomic.Bool{})
	for _, st := range []step{
		{args: "parked list", out: []string{"ID", "STATUS", "a   orders  g-a", "dead", "422"}},
		{args: "parked list --group g-b", out: []string{"b   orders  g-b"}},
		{args: "parked list --limit 2", out: []string{"dead"}, err: []string{"more messages match"}},
		{args: "parked list --limit 2 -o json", out: []string{`"more": true`}},
		{args: "parked show a", out: []string{"status      dead", "metadata    h: 1", "payload:\n{\n  \"id\": \"a\"\n}"}},
		{args: "parked show a -o json", out: []string{`"h": "1"`, `"payload": {`, `"last_error"`}},
		{args: "status", out: []string{"DEAD", "orders"}},
		{args: "status -o json", out: []string{`"dead": 3`}},
	} {
		st.run(t, s)
	}
	if list := s.must("parked", "list"); strings.Contains(list, "\x1b") {
		t.Errorf("an answer's escape codes reach the terminal: %q", list)
	}
}

func TestParkedMessagesAreRedrivenSkippedAndPurged(t *testing.T) {
	t.Parallel()
	accept := &atomic.Bool{}
	s := parkedSite(t, accept)
	for _, st := range []step{
		{args: "parked redrive --all --dry-run", out: []string{"ROUTE   STATUS  MESSAGES\norders  dead    3\n", "3 messages would be redriven"}},
		{args: "parked redrive --all --dry-run -o json", out: []string{`"would_change": 3`, `"messages": 3`, `"dry_run": true`}},
		{args: "parked purge --group g-b --dry-run", out: []string{"1 message would be purged"}},
		{args: "parked purge --older-than 1h --dry-run", out: []string{"0 messages would be purged"}},
		{args: "parked purge --type order.created --error THANKS --limit 2 --dry-run", out: []string{"2 messages would be purged"}},
		{args: "parked skip --all --dry-run -o json", out: []string{`"would_change": 0`, `"matching": []`}},
		{args: "parked purge --all", code: 2, err: []string{"cannot ask whether to purge 3 messages"}},
		{args: "parked redrive a b", code: 2, err: []string{"redrive 2 messages", "--yes"}},
		{args: "parked skip a", code: 1, err: []string{"can be skipped"}},
		{args: "parked skip --status dead", code: 2, err: []string{"outrider parked purge"}},
		{args: "parked purge a --by me", out: []string{"1 message purged"}},
		{args: "parked show a", code: 1, err: []string{"no parked message"}},
		{args: "parked redrive b", out: []string{"1 message redriven"}, err: []string{"after the messages of its group"}},
		{args: "parked list --id b", out: []string{"retrying"}},
		{args: "parked list --error nothing-like-it", out: []string{"no parked message matches"}},
		{args: "parked redrive --all --yes --rate 1000/s -o json", out: []string{`"changed": 2`}, err: nil},
		{args: "parked purge --all --yes", out: []string{"0 messages purged"}},
	} {
		st.run(t, s)
	}
	accept.Store(true)
	s.runUntil(func() bool { return len(s.parked()) == 0 })
}

// An age alone selects messages, for every command that takes one, in the count before the change as in the change.
func TestParkedMessagesAreChangedByTheirAge(t *testing.T) {
	t.Parallel()
	accept := &atomic.Bool{}
	s := parkedSite(t, accept)
	for _, st := range []step{
		{args: "parked list --older-than 1ms", out: []string{"a   orders", "b   orders", "c   orders"}},
		{args: "parked list --older-than 1h", out: []string{"no parked message matches"}},
		{args: "parked redrive --older-than 1ms --dry-run", out: []string{"3 messages would be redriven"}},
		{args: "parked redrive --older-than 1h --group g-a", out: []string{"0 messages redriven"}},
		{args: "parked redrive --older-than 1ms --group g-a --yes", out: []string{"1 message redriven"}, err: []string{"after the messages of its group"}},
		{args: "parked purge --older-than 1ms --limit 1 --yes", out: []string{"1 message purged"}},
		{args: "parked purge --older-than 1ms --yes", out: []string{"1 message purged"}},
		{args: "parked skip --older-than 1ms --yes", out: []string{"1 message skipped"}},
		{args: "parked list", out: []string{"no parked message matches"}},
	} {
		st.run(t, s)
	}
}

func TestParkedFlagsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	s.must("init")
	for args, want := range map[string]string{
		"redrive":                       "name the messages",
		"purge --limit 3":               "name the messages",
		"redrive --all --error x":       "--all takes neither ids nor a filter",
		"redrive --all --older-than 1h": "--all takes neither ids nor a filter",
		"redrive --status waiting":      "waiting messages cannot be redriven",
		"skip --status ill":             "none of retrying, held, waiting",
		"purge --older-than yesterday":  "expected a duration with its unit",
		"purge --all --rate fast":       "expected a rate such as 500/s",
		"purge --all --limit -1":        "--limit must not be negative",
		"redrive --route none":          `there is no route "none"`,
		"purge --status dead":           "unknown flag: --status",
		"list --older-than 3":           "expected a duration",
		"list --status buried":          "none of retrying, waiting, held, dead",
	} {
		step{args: "parked " + args, code: 2, err: []string{want}}.run(t, s)
	}
}

// A command that goes at a rate can be stopped: it says how far it came, and
// repeating it does the rest.
func TestARateLimitedCommandCanBeStopped(t *testing.T) {
	t.Parallel()
	s := parkedSite(t, &atomic.Bool{})
	p := s.start("parked", "purge", "--all", "--yes", "--rate", "1/h")
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for len(s.parked()) != 2 { // the first goes at once, the second in an hour
		<-look.C
	}
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != exitFailed {
		t.Errorf("exit status %d", code)
	}
	if text := p.all(); !strings.Contains(text, "was stopped: 1 of 3 messages purged; resume it with: outrider operations resume ") {
		t.Errorf("it said %q", text)
	}
	if got := len(s.parked()); got != 2 {
		t.Errorf("%d are left, want 2", got)
	}
	step{args: "parked purge --all --yes", out: []string{"2 messages purged"}}.run(t, s)
}
