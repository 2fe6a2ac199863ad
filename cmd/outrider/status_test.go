package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// Of 500 routes a table lists those that need attention and counts the others.
func TestAStatusOfManyRoutesIsShort(t *testing.T) {
	t.Parallel()
	var rows []status.RouteStatus
	for i := range 500 {
		p := status.RouteStatus{State: status.StateOK, Route: fmt.Sprintf("route-%03d", i), Lanes: 16, Owners: []string{"a"}, Alive: true}
		if i%50 == 0 {
			p.Dead, p.State = 1, status.StateDead
		}
		rows = append(rows, p)
	}
	for _, c := range []struct {
		view  statusView
		lines int
		want  string
	}{
		{statusView{}, 12, "and 490 routes ok: --all lists them"},
		{statusView{all: true}, 501, "route-499"},
		{statusView{states: []string{"ok"}}, 501, "route-499"},
	} {
		var out bytes.Buffer
		if err := (&app{out: &out}).printStatus(rows, &c.view); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != c.lines || !strings.Contains(out.String(), c.want) {
			t.Errorf("%+v: %d lines, want %d with %q:\n%s", c.view, n, c.lines, c.want, out.String())
		}
	}
}

// A route that fails is shown with the message, its error and the command to look
// closer, and a filter finds it.
func TestAStatusShowsWhatFails(t *testing.T) {
	t.Parallel()
	s := parkedSite(t, new(atomic.Bool))
	for _, st := range []step{
		{args: "status", out: []string{"orders  no-relay", "no relay is running: start one with outrider run",
			"3 messages dead; message ", " of group g-", "after 1 attempt", "422", "outrider parked list --route orders --status dead"}},
		{args: "status ord*", out: []string{"orders  no-relay"}},
		{args: "status --state ok,held"},
		{args: "status other", code: 2, err: []string{"no route matches other: the configuration has orders"}},
		{args: "status --state ill", code: 2, err: []string{`--state "ill" is none of stopped, no-relay`}},
		{args: "status [", code: 2, err: []string{"route pattern"}},
		{args: "status -o json", out: []string{`"state": "no-relay"`, `"failing": {`, `"status": "dead"`}},
	} {
		st.run(t, s)
	}
	if r := s.call("status", "--state", "ok"); strings.Contains(r.out, "orders  ") {
		t.Errorf("a route in another state is listed: %v", r)
	}
}

func TestAFailureSaysWhenItIsTriedNext(t *testing.T) {
	t.Parallel()
	next := time.Now().Add(time.Minute + time.Second/2)
	f := &status.Failing{ID: "7", Status: adapters.ParkedRetrying, Attempts: 2, Since: time.Now(), Next: &next, Error: "no"}
	if text := failureText(f, &status.RouteStatus{Retrying: 1}); !strings.Contains(text, "1 message retrying; message 7, parked 0s ago after 2 attempts, next attempt in 1m0s: no") {
		t.Errorf("got %q", text)
	}
}

// Commands that deliver nothing work where the destinations' secrets are not set;
// what would deliver refuses such a file.
func TestOperatorsNeedNoSecretsOfDestinations(t *testing.T) {
	t.Parallel()
	s := newSite(t, "destinations:\n  api: {type: http, url: \"http://127.0.0.1:1/\", token: \"${NOBODY_SETS_THIS_TOKEN}\"}\nroutes:\n  orders: {from: app, to: api}\n")
	for _, st := range []step{
		{args: "init", out: []string{"created the state tables"}},
		{args: "publish --type a --payload 1 --id one -o json", out: []string{`"id": "one"`, `"routes": [`, `"orders"`}},
		{args: "status", out: []string{"orders"}},
		{args: "parked list", out: []string{"no parked message matches"}},
		{args: "pause orders", out: []string{"route orders is paused"}},
		{args: "resume orders", out: []string{"route orders resumed"}},
		{args: "seek orders --to end --yes", out: []string{"done"}},
		{args: "tail app --from beginning -n 1", out: []string{"one"}, err: []string{"following"}},
		{args: "run", code: 2, err: []string{"NOBODY_SETS_THIS_TOKEN is not set"}},
		{args: "validate", code: 2, err: []string{"NOBODY_SETS_THIS_TOKEN is not set"}},
	} {
		st.run(t, s)
	}
}

func TestAMessageThatNoRouteWantsIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSite(t, "destinations:\n  nowhere: {type: discard}\nroutes:\n  orders: {from: app, to: nowhere, match: {types: [\"order.*\"]}}\n")
	s.must("init")
	step{args: "publish --type bill.paid --payload 1 --id one", out: []string{"one\n"},
		err: []string{`warning: no route of source app matches type "bill.paid"`}}.run(t, s)
	if r := s.call("publish", "--type", "order.paid", "--payload", "1"); r.err != "" {
		t.Errorf("a message that a route wants: %v", r)
	}
}

func TestUnknownIdsAreNamed(t *testing.T) {
	t.Parallel()
	s := parkedSite(t, new(atomic.Bool))
	step{args: "parked purge a nobody --yes", out: []string{"1 message purged"},
		err: []string{"warning: no parked message with the id nobody can be purged"}}.run(t, s)
	step{args: "parked purge x y", code: 1, err: []string{"no parked message with the id x or y can be purged"}}.run(t, s)
}

func TestMachinesGetJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	for _, args := range []string{"init", "validate", "status", "status --lanes", "pause orders", "resume orders", "parked list", "version",
		"publish --type a --payload 1", "seek orders --to end --yes", "route forget orders --force --yes"} {
		r := s.call(append(strings.Fields(args), "--output", "json")...)
		if r.code != exitOK || !json.Valid([]byte(r.out)) {
			t.Errorf("%s: %v", args, r)
		}
	}
	step{args: "--version", out: []string{"outrider "}}.run(t, s)
	s.write("sources: {}\n")
	r := s.call("validate", "-o", "json")
	var found struct {
		Valid  bool      `json:"valid"`
		Errors []problem `json:"errors"`
	}
	if err := json.Unmarshal([]byte(r.out), &found); err != nil || r.code != exitWrong || found.Valid || len(found.Errors) == 0 || found.Errors[0].Line == 0 {
		t.Errorf("an invalid file: %v: %v", err, r)
	}
}
