package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestOptionsTellEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := parseOptions([]string{"-rows", "0", "-payload", "10", "-peers", "floor,other", "-scenario", "drain,x", "-cpus", "0,b", "-limit", "0s", "-duration", "0s", "-hold", "-1s", "-sustain", "0s", "-rate", "0"}, io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"-rows 0: must be at least 1", "-payload 10: must be at least 140", `unknown peer "other"; there are floor, outrider, stock, debezium, graphile, insert, river`,
		`-scenario drain,x: "x" is unknown; there are drain, flat, flowcatalyst, mariadb, mongodb, webhooks, latency, publish, river, jobs, sustained, snapshot, spread, peers, faults, idle, routes and all`, `-cpus 0,b: "b"`, "-limit 0s", "-duration 0s", "-hold -1s", "-sustain 0s", "-rate 0: must be at least 1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told: %v", want, err)
		}
	}
	for args, want := range map[string]string{
		"rows": "everything is a flag", "-postgres=new": "must be a major version such as 18, distribution or given",
		"-postgres=16 -write": "has sections for 18 and distribution only", "-compare=HEAD -write": "figures of one build",
		"-compare=HEAD -scenario=publish": "its relay runs in this process", "-peers=outrider-none": "unknown peer", "-peers=floor,floor": "listed twice", "-scenario=drain,drain": "listed twice"} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestOptionsKeepTheCommand(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-rows", "50", "-peers", "stock,floor", "-scenario", "all", "-cpus", "0,2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.command != "go run ./bench -rows 50 -peers stock,floor -scenario all -cpus 0,2" {
		t.Errorf("command %q", o.command)
	}
	if len(o.peers) != 2 || len(o.scenarios) != len(scenarios) || len(o.cpus) != 2 {
		t.Errorf("got peers %v, %d scenarios, processors %v", o.peers, len(o.scenarios), o.cpus)
	}
	var names []string
	for _, sc := range o.scenarios {
		for _, e := range sc.selected(o) {
			names = append(names, sc.name+" "+e.peer.Name())
		}
	}
	if got := strings.Join(slices.Compact(names), ", "); got != "drain floor, drain stock, flowcatalyst floor, mariadb floor, mongodb floor, webhooks floor, latency floor, faults stock" {
		t.Errorf("selected %s", got)
	}
}
