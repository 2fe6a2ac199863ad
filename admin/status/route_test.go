package status

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// at is a time in the tests.
func at(minutes int) time.Time { return time.Date(2026, 1, 31, 8, minutes, 0, 0, time.UTC) }

// lane is a lane of a route; an empty owner has none.
func lane(route string, slot int, owner string, change func(*adapters.LaneStatus)) adapters.LaneStatus {
	l := adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: route, Slot: slot}, Owner: owner, Alive: owner != "" && owner != "dead"}
	if change != nil {
		change(&l)
	}
	return l
}

func TestRoutesAreSumsOfTheirLanes(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Routes: []config.Route{{Name: "orders", To: "bus"}, {Name: "idle", To: "bus"}}}
	rows := Summarise(cfg, []adapters.LaneStatus{
		lane("orders", 0, "a", func(l *adapters.LaneStatus) {
			l.Cursor.Position, l.UpdatedAt, l.Since, l.Retrying, l.Dead = 7, at(1), at(0), 1, 2
		}),
		lane("orders", 1, "b", func(l *adapters.LaneStatus) {
			l.Cursor.Position, l.UpdatedAt, l.Since, l.Waiting, l.Held = 5, at(3), at(2), 4, 1
		}),
		lane("orders", 2, "a", func(l *adapters.LaneStatus) { l.Since = at(5) }),
		lane("gone", 0, "dead", nil),
		lane("unowned", 0, "", nil),
	})
	names := []string{}
	byName := map[string]*RouteStatus{}
	for i := range rows {
		names = append(names, rows[i].Route)
		byName[rows[i].Route] = &rows[i]
	}
	if want := []string{"orders", "idle", "gone", "unowned"}; !slices.Equal(names, want) {
		t.Fatalf("routes %v, want %v: those of the configuration first", names, want)
	}
	orders := byName["orders"]
	if orders.Lanes != 3 || orders.Position != 7 || orders.Retrying != 1 || orders.Waiting != 4 || orders.Held != 1 || orders.Dead != 2 {
		t.Errorf("the sum is %+v", *orders)
	}
	if !orders.Alive || !slices.Equal(orders.Owners, []string{"a", "b"}) || !orders.UpdatedAt.Equal(at(3)) {
		t.Errorf("owners %v, alive %v, updated %v", orders.Owners, orders.Alive, orders.UpdatedAt)
	}
	if o := orders.Owned[0]; o.Owner != "a" || !slices.Equal(o.Slots, []int{0, 2}) || !o.Since.Equal(at(5)) {
		t.Errorf("a owns %+v", o)
	}
	for name, want := range map[string][2]bool{"orders": {true, false}, "idle": {false, false}, "gone": {false, true}, "unowned": {false, true}} {
		if got := [2]bool{byName[name].Alive, byName[name].Foreign}; got != want {
			t.Errorf("%s: alive and foreign are %v, want %v", name, got, want)
		}
	}
}

func TestEachLaneHasARow(t *testing.T) {
	t.Parallel()
	rows := EachLane([]adapters.LaneStatus{
		lane("orders", 3, "a", func(l *adapters.LaneStatus) { l.Epoch, l.Since = 9, at(1) }), lane("orders", 4, "", nil),
	})
	if len(rows) != 2 || *rows[0].Slot != 3 || rows[0].Epoch != 9 || !rows[0].Since.Equal(at(1)) || !rows[0].Alive {
		t.Errorf("the first row is %+v", rows[0])
	}
	if rows[0].Lanes != 0 || rows[0].Owned != nil {
		t.Error("the row of a lane has the sums of a route")
	}
	if *rows[1].Slot != 4 || rows[1].Alive || rows[1].Since != nil || len(rows[1].Owners) != 0 {
		t.Errorf("the second row is %+v", rows[1])
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	instances := []adapters.Instance{
		{ID: "a", Alive: true, JoinedAt: at(0), RenewedAt: at(9), Routes: []adapters.RunningRoute{{Route: "orders"}, {Route: "mail", Waits: "no lead"}}},
		{ID: "b"},
	}
	got := MembersOf(instances, []adapters.LaneStatus{lane("orders", 0, "a", nil), lane("orders", 1, "a", nil), lane("orders", 2, "c", nil)})
	want := []Member{
		{ID: "a", Alive: true, JoinedAt: at(0), Heartbeat: at(9), Lanes: 2, Routes: 2, Waits: []Waits{{"mail", "no lead"}}}, {ID: "b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("members %+v\nwant %+v", got, want)
	}
}

func TestIdleInstancesAreNamed(t *testing.T) {
	t.Parallel()
	rows := []RouteStatus{
		{Route: "orders", Owned: []Owned{{Owner: "busy", Alive: true}}},
		{Route: "works", Alive: true},
		{Route: "foreign", Foreign: true, Alive: true},
	}
	run := func(id string, alive bool, r adapters.RunningRoute) adapters.Instance {
		return adapters.Instance{ID: id, Alive: alive, Routes: []adapters.RunningRoute{r}}
	}
	AddIdle(rows, []adapters.Instance{
		run("idle", true, adapters.RunningRoute{Route: "orders"}),
		run("busy", true, adapters.RunningRoute{Route: "orders"}),
		run("dead", false, adapters.RunningRoute{Route: "orders"}),
		run("waits", true, adapters.RunningRoute{Route: "orders", Waits: "no lead"}),
		run("other", true, adapters.RunningRoute{Route: "foreign"}),
		run("works", true, adapters.RunningRoute{Route: "works"}),
	})
	for i, want := range []struct{ idle, runBy []string }{{[]string{"idle"}, nil}, {nil, nil}, {nil, []string{"other"}}} {
		if !slices.Equal(rows[i].Idle, want.idle) || !slices.Equal(rows[i].RunBy, want.runBy) {
			t.Errorf("%s: idle %v, run by %v; want %v", rows[i].Route, rows[i].Idle, rows[i].RunBy, want)
		}
	}
}

func TestWhatTheProcessKnowsIsAdded(t *testing.T) {
	t.Parallel()
	next := at(7)
	running := RoutesOf([]adapters.RouteStats{{
		Route: "orders", Lanes: 4, Delivered: 12, InFlight: 3, Oldest: 90 * time.Second, Stopped: "no", SourceError: "s", StateError: "p",
		Down: []adapters.AddressStatus{{Address: "known", Held: 5}, {Address: "new", Gone: true, Since: at(1), Cause: "410", Held: 2, NextProbe: next}},
	}})
	if r := running[0]; r.Route != "orders" || r.Lanes != 4 || r.Delivered != 12 || r.InFlight != 3 || r.OldestSeconds != 90 || r.Paused {
		t.Errorf("the route is %+v", r)
	}
	p := RouteStatus{Route: "orders", Down: []Stop{{Address: "known", By: "alice", Durable: true}}}
	p.AddRunning(running[0])
	want := []Stop{{Address: "known", By: "alice", Durable: true, Waiting: 5}, {Address: "new", Since: at(1), Reason: "410", Waiting: 2, Durable: true, Probe: &next}}
	if !reflect.DeepEqual(p.Down, want) || p.Stopped != "no" || p.SourceError != "s" || p.StateError != "p" {
		t.Errorf("down %+v\nwant %+v", p.Down, want)
	}
}
