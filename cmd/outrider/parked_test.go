package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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
		{args: "parked list --limit 2", out: []string{"dead"}, err: []string{"there are more"}},
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

func TestParkedMessagesAreRedrivenAndSkipped(t *testing.T) {
	t.Parallel()
	accept := &atomic.Bool{}
	s := parkedSite(t, accept)
	for _, st := range []step{
		{args: "parked redrive --all --dry-run", out: []string{"3 messages would be redriven"}},
		{args: "parked skip --group g-b --dry-run", out: []string{"1 message would be skipped"}},
		{args: "parked skip --status held --dry-run", out: []string{"0 messages would be skipped"}},
		{args: "parked skip a --by me", out: []string{"1 message skipped"}},
		{args: "parked show a", code: 1, err: []string{"no parked message"}},
		{args: "parked redrive b", out: []string{"1 message redriven"}},
		{args: "parked list --id b", out: []string{"retrying"}},
		{args: "parked redrive --all", out: []string{"2 messages redriven"}},
	} {
		st.run(t, s)
	}
	accept.Store(true)
	s.runUntil(func() bool { return len(s.parked()) == 0 })
}
