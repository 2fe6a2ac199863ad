package model

import (
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// plan has a group of two rows, and a row beside them; apart: that row has a lane of its own.
var (
	plan  = &Plan{Group: [Rows]int{1, 1, 2}}
	apart = &Plan{Group: [Rows]int{1, 1, 2}, Lane: [Rows]int{0, 0, 1}}
)

// The design keeps the rules in every sequence of steps within the bounds.
func TestTheDesignKeepsTheRules(t *testing.T) {
	t.Parallel()
	bounds := []Bounds{
		{Rows: 3, Relays: 2, Aborts: 1, Steals: 1, Fails: 1, Deaths: 1},
		{Rows: 2, Relays: 2, Crashes: 1, Steals: 1, Fails: 1, Deaths: 1, Commands: 1},
		{Rows: 3, Relays: 1, Crashes: 1, Fails: 1, Deaths: 1, Commands: 1},
	}
	if testenv.Soaking() {
		bounds = append(bounds, Bounds{Rows: 2, Relays: 2, Crashes: 1, Steals: 1, Fails: 2, Deaths: 1, Commands: 2},
			Bounds{Rows: 3, Relays: 1, Aborts: 1, Crashes: 2, Fails: 2, Deaths: 2, Commands: 1}, Bounds{Rows: 3, Relays: 2, Aborts: 1, Crashes: 1, Steals: 1, Fails: 1, Deaths: 1, Commands: 1},
			Bounds{Rows: 4, Relays: 2, Steals: 1, Fails: 1})
	}
	keeps(t, plan, bounds, Explore)
}

// So does that of relays with two lanes, of which they may lose one.
func TestTheDesignKeepsTheRulesOfSeveralLanes(t *testing.T) {
	t.Parallel()
	bounds := []Bounds{
		{Rows: 3, Relays: 2, Lanes: 2, Steals: 1, Fails: 1},
		{Rows: 3, Relays: 1, Lanes: 2, Crashes: 1, Fails: 1, Deaths: 1},
	}
	if testenv.Soaking() {
		bounds = append(bounds, Bounds{Rows: 3, Relays: 2, Lanes: 2, Steals: 1, Crashes: 1, Fails: 1}, Bounds{Rows: 3, Relays: 2, Lanes: 2, Fails: 1, Deaths: 1, Commands: 1})
	}
	keeps(t, apart, bounds, Explore)
}

// So does that of relays that claim rows.
func TestTheDesignOfQueuesKeepsTheRules(t *testing.T) {
	t.Parallel()
	bounds := []Bounds{
		{Rows: 3, Relays: 2, Aborts: 1, Steals: 1, Fails: 1, Deaths: 1},
		{Rows: 3, Relays: 2, Crashes: 1, Fails: 1, Deaths: 1, Locks: 1},
		{Rows: 2, Relays: 2, Crashes: 1, Steals: 1, Fails: 1, Deaths: 1, Commands: 1, Locks: 1},
	}
	if testenv.Soaking() {
		bounds = append(bounds, Bounds{Rows: 3, Relays: 2, Crashes: 1, Steals: 1, Fails: 1, Deaths: 1, Commands: 1},
			Bounds{Rows: 4, Relays: 2, Steals: 1, Fails: 1, Deaths: 1})
	}
	keeps(t, plan, bounds, ExploreQueue)
}

func keeps(t *testing.T, of *Plan, bounds []Bounds, explore func(*Plan, Bounds, Fault) Explored) {
	t.Helper()
	for _, b := range bounds {
		got := explore(of, b, NoFault)
		t.Logf("%+v: %d states", b, got.States)
		if got.Err != nil {
			t.Errorf("%v, after:", got.Err)
			for _, e := range got.Path {
				t.Logf("%+v", e)
			}
		}
	}
}

// Each fault leads to a state that a rule forbids.
func TestTheRulesNoticeEachFault(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Rows: 3, Relays: 2, Crashes: 1, Steals: 1, Fails: 1, Deaths: 1, Commands: 1}
	notices := func(f Fault, explore func(*Plan, Bounds, Fault) Explored) {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			of, bounds := plan, bounds
			if f == FencesOne || f == ReadsOthers {
				of, bounds.Lanes = apart, 2
			}
			got := explore(of, bounds, f)
			t.Logf("%d states, %d events: %v", got.States, len(got.Path), got.Err)
			if got.Err == nil {
				t.Error("no rule notices it")
			}
		})
	}
	for _, f := range Faults {
		notices(f, Explore)
	}
	for _, f := range QueueFaults {
		notices(f, ExploreQueue)
	}
}
