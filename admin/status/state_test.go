package status

import (
	"strings"
	"testing"
	"time"
)

// aliveMember is an instance that runs.
var aliveMember = []Member{{ID: "a", Alive: true, Waits: []Waits{{Route: "waits", Why: "another process holds the lock"}}}}

func TestRoutesAreJudgedWorstFirst(t *testing.T) {
	t.Parallel()
	behind, old, fresh := 5, time.Now().Add(-time.Hour), time.Now()
	owned := func(p RouteStatus) RouteStatus {
		p.Owners, p.Alive, p.Lanes = []string{"a"}, true, 16
		return p
	}
	rows := []RouteStatus{
		owned(RouteStatus{Route: "ok"}),
		owned(RouteStatus{Route: "dead", Dead: 1}),
		owned(RouteStatus{Route: "busy", Behind: &behind, Oldest: &fresh}),
		owned(RouteStatus{Route: "behind", Behind: &behind, Oldest: &old, Dead: 2}),
		owned(RouteStatus{Route: "retrying", Retrying: 1, Behind: &behind, Oldest: &old}),
		{Route: "paused", Paused: &Stop{}, Lanes: 16},
		owned(RouteStatus{Route: "held", Held: 1, Retrying: 1}),
		owned(RouteStatus{Route: "full", StateError: "No space left on device", Retrying: 1}),
		owned(RouteStatus{Route: "away", SourceError: "connection refused"}),
		{Route: "full and paused", Paused: &Stop{}, StateError: "No space left on device", Lanes: 16},
		owned(RouteStatus{Route: "down", Down: []Stop{{Address: "x"}}, Retrying: 3}),
		{Route: "lost", Lanes: 16, Owners: []string{"b"}},
		{Route: "waits", Lanes: 16},
		owned(RouteStatus{Route: "stopped", Stopped: "its cursor is another table's"}),
	}
	Judge(rows, aliveMember)
	var got []string
	for _, r := range rows {
		got = append(got, r.Route+" "+string(r.State))
	}
	want := "stopped stopped, lost no-relay, full failing, away failing, down unavailable, held held, retrying retrying, behind behind, paused paused, full and paused paused, " +
		"dead dead, waits standby, ok ok, busy ok"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
