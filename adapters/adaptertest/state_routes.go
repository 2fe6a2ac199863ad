package adaptertest

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// Lanes of several routes are acquired, bound to their tables, and described, as those of each alone are.
func testAcquireRoutes(t *testing.T, db *stateDB) {
	store := db.joined("a")
	many, able := store.(adapters.RoutesAcquirer)
	if !able {
		t.Skip("the store acquires routes one by one")
	}
	mine, theirs := adapters.Table{Cluster: "c", Name: "mine"}, adapters.Table{Cluster: "c", Name: "theirs"}
	acquire(t, store, "a", 0, 1, 2) // of r, which belongs to another table than it is said to read
	if err := store.Bind(t.Context(), "r", theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Pause(t.Context(), adapters.Pause{Route: "paused", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	parking, err := store.Acquire(t.Context(), "a", "parking", []int{3}, 1)
	if err != nil || len(parking) != 1 {
		t.Fatal(parking, err)
	}
	parked := at(parking[0], 1)
	parked.Table = mine
	parked.Park = []adapters.Parked{{LaneRef: parking[0].LaneRef, Seq: 1, Status: adapters.ParkedWaiting, ID: "e", Type: "t"}}
	settle(t, store, parked)

	got, err := many.AcquireRoutes(t.Context(), "a", []adapters.Wanted{
		{Route: "r", Slots: []int{0, 1, 2, 3}, Most: 3, Table: mine}, {Route: "paused", Slots: []int{0}, Most: 1, Table: mine},
		{Route: "parking", Slots: []int{3, 4}, Most: 9, Table: mine}, {Route: "new", Slots: []int{7, 8}, Most: 1, Table: mine}, {Route: "nameless", Slots: []int{1}, Most: 1}})
	if err != nil || len(got) != 5 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for route, want := range map[string]struct {
		slots           []int
		tables          []adapters.Table
		paused, parking bool
	}{
		"r":        {slots: []int{0, 1, 2}, tables: []adapters.Table{theirs, theirs, theirs}}, // its own first
		"paused":   {paused: true},
		"parking":  {slots: []int{3, 4}, tables: []adapters.Table{mine, mine}, parking: true},
		"new":      {slots: []int{7}, tables: []adapters.Table{mine}},
		"nameless": {slots: []int{1}, tables: []adapters.Table{{}}},
	} {
		a := got[route]
		var slots []int
		var tables []adapters.Table
		for _, l := range sortLanes(a.Lanes) {
			slots, tables = append(slots, l.Slot), append(tables, l.Table)
		}
		if !slices.Equal(slots, want.slots) || !slices.Equal(tables, want.tables) || a.Paused != want.paused || a.Parking != want.parking {
			t.Errorf("route %s: %+v", route, a)
		}
	}
	lanes, err := store.Lanes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(lanes, func(l adapters.LaneStatus) bool { return l.Route == "new" && l.Slot == 8 }); i < 0 || lanes[i].Owner != "" {
		t.Errorf("the lane of new that was too many: %+v", lanes)
	}
	if again, err := many.AcquireRoutes(t.Context(), "a", []adapters.Wanted{{Route: "new", Slots: []int{7}, Most: 1, Table: mine}}); err != nil ||
		again["new"].Lanes[0].Epoch <= got["new"].Lanes[0].Epoch || again["new"].Lanes[0].Table != mine {
		t.Errorf("acquired again %+v, %v", again, err)
	}
}
