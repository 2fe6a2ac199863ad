package adaptertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func instances(tb testing.TB, store adapters.OperatorStore) []adapters.Instance {
	tb.Helper()
	all, err := store.Instances(tb.Context())
	if err != nil {
		tb.Fatalf("instances: %v", err)
	}
	return all
}

func testAnnounce(t *testing.T, db *stateDB) {
	store := db.joined("a")
	if all := instances(t, store); len(all) != 1 || all[0].ID != "a" || !all[0].Alive || len(all[0].Routes) != 0 {
		t.Fatalf("before it announces anything: %+v", all)
	}
	for _, routes := range [][]adapters.RunningRoute{
		{{Route: "orders"}, {Route: "a \"b\" \\ ü", Unit: "source app", Waits: "the server said: \x00 \xff"}},
		{},
		{{Route: "orders", Unit: "route orders"}},
	} {
		if err := store.Announce(t.Context(), "a", routes); err != nil {
			t.Fatal(err)
		}
		got := instances(t, store)[0].Routes
		for i := range routes { // texts for people may come back mended
			if i < len(got) && (got[i].Waits == "") == (routes[i].Waits == "") {
				got[i].Waits = routes[i].Waits
			}
		}
		if !slices.Equal(got, routes) {
			t.Errorf("announced %+v, got %+v", routes, got)
		}
	}
	before := instances(t, store)[0]
	if _, err := store.Renew(t.Context(), "a", longLease); err != nil {
		t.Fatal(err)
	}
	after := instances(t, store)[0]
	if !slices.Equal(after.Routes, before.Routes) || after.RenewedAt.Before(before.RenewedAt) || !after.JoinedAt.Equal(before.JoinedAt) {
		t.Errorf("a renewal made of %+v: %+v", before, after)
	}
	if err := store.Announce(t.Context(), "b", nil); err == nil {
		t.Error("an instance that has not joined announced its routes")
	}
	if err := store.Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if all := instances(t, store); len(all) != 0 {
		t.Errorf("after it has left: %+v", all)
	}
}

// An instance that is removed has no lanes, is not listed, and joins again with its next renewal; until others take its lanes what it
// settles counts, and not afterwards.
func testRemoveInstance(t *testing.T, db *stateDB) {
	store := db.joined("a")
	lanes, err := store.Acquire(t.Context(), "a", "r", []int{0, 1}, 2)
	if err != nil || len(lanes) != 2 {
		t.Fatalf("acquired %v, %v", lanes, err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := store.RemoveInstance(t.Context(), "a", "alice"); removed != want || err != nil {
			t.Errorf("removed: %v, %v; want %v", removed, err, want)
		}
	}
	if all := instances(t, store); len(all) != 0 {
		t.Errorf("after it was removed there is %+v", all)
	}
	records, err := readAudit(t, store)
	if err != nil || len(records) != 1 || records[0].Action != "remove instance" || records[0].Changed != 2 || records[0].By != "alice" {
		t.Errorf("audited %+v, %v", records, err)
	}
	owned, err := store.Renew(t.Context(), "a", longLease)
	if err != nil || len(owned) != 0 {
		t.Errorf("it joins again with %v, %v", owned, err)
	}
	if all := instances(t, store); len(all) != 1 || !all[0].Alive {
		t.Errorf("after it has joined again there is %+v", all)
	}
	again, err := store.Acquire(t.Context(), "a", "r", []int{0, 1}, 2)
	if err != nil || len(again) != 2 || again[0].Epoch <= lanes[0].Epoch {
		t.Fatalf("acquired again %v, %v", again, err)
	}
	fenced, err := store.Settle(t.Context(), []adapters.Settlement{{LaneRef: lanes[0].LaneRef, Epoch: lanes[0].Epoch, Cursor: lanes[0].Cursor, Revision: 9}})
	if err != nil || len(fenced) != 1 {
		t.Errorf("a settle of its former life: %v, %v", fenced, err)
	}
}

func testAcquireAtMost(t *testing.T, db *stateDB) {
	store := db.joined("a")
	acquired := func(most int, slots ...int) (out []int) {
		t.Helper()
		lanes, err := store.Acquire(t.Context(), "a", "r", slots, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range sortLanes(lanes) {
			out = append(out, l.Slot)
		}
		return out
	}
	if got := acquired(0, 0, 1); len(got) != 0 {
		t.Errorf("none were wanted, got %v", got)
	}
	if got := acquired(2, 7, 8, 9); len(got) != 2 {
		t.Errorf("two of three were wanted, got %v", got)
	}
	if got := acquired(1, 3); !slices.Equal(got, []int{3}) {
		t.Errorf("got %v", got)
	}
	if got := acquired(3, 0, 1, 2, 3, 7, 8, 9); len(got) != 3 || !slices.Contains(got, 3) || got[2] < 7 {
		t.Errorf("its own come first, got %v", got)
	}
	if got := acquired(9, 3, 4); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("got %v", got)
	}
}

func testInstancesSeeEachOther(t *testing.T, db *stateDB) {
	a := db.joined("a")
	b := db.joined("b")
	for name, store := range map[string]adapters.OperatorStore{"a": a, "b": b} {
		all := instances(t, store)
		if len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" || !all[0].Alive || !all[1].Alive {
			t.Errorf("%s sees %+v", name, all)
		}
		if left := all[1].Left; left > longLease || left < longLease/2 {
			t.Errorf("of b's lease %v is left, of %v", left, longLease)
		}
		if d := all[0].RenewedAt.Sub(all[0].JoinedAt); d < 0 || d > time.Hour {
			t.Errorf("a joined at %v and renewed at %v", all[0].JoinedAt, all[0].RenewedAt)
		}
	}
	if err := b.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if all := instances(t, a); len(all) != 1 || !all[0].Alive {
		t.Errorf("after b has left a sees %+v", all)
	}
}

func testInstanceWithoutLease(t *testing.T, db *stateDB) {
	a := db.joined("a")
	b := db.store()
	if err := b.Join(t.Context(), "b", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	acquire(t, b, "b", 0)
	eventually(t, "b is dead", func(context.Context) bool { i := instances(t, a)[1]; return !i.Alive && i.Left <= 0 })
	if lanes, err := a.Lanes(t.Context()); err != nil || len(lanes) != 1 || lanes[0].Alive {
		t.Errorf("the lanes are %+v, %v", lanes, err)
	}
	if _, err := b.Renew(t.Context(), "b", longLease); err != nil {
		t.Fatal(err)
	}
	if all := instances(t, a); !all[1].Alive {
		t.Errorf("b renewed its lease: %+v", all)
	}
}

// A lane goes from one instance to the other and back, each time with what the
// former one settled last, and never without an epoch of its own.
func testLanesAreHandedOver(t *testing.T, db *stateDB) {
	stores := map[string]adapters.OperatorStore{"a": db.joined("a"), "b": db.joined("b")}
	owner, other := "a", "b"
	lanes := acquire(t, stores[owner], owner, 0, 1, 2)
	for i := range int64(4) {
		settle(t, stores[owner], at(lanes[1], 10*(i+1)))
		if err := stores[owner].Release(t.Context(), owner, []adapters.LaneRef{lanes[1].LaneRef}); err != nil {
			t.Fatal(err)
		}
		got := acquire(t, stores[other], other, 0, 1, 2) // beside what the owner keeps
		want := 1
		if i%2 == 1 { // a takes back beside its own
			want = 3
		}
		if len(got) != want {
			t.Fatalf("turn %d: %s acquired %+v", i, other, got)
		}
		moved := got[len(got)/2]
		if moved.Slot != 1 || moved.Cursor.Position != 10*(i+1) || moved.Epoch <= lanes[1].Epoch {
			t.Fatalf("turn %d: %s acquired %+v after %+v", i, other, moved, lanes[1])
		}
		if fenced, err := stores[owner].Settle(t.Context(), []adapters.Settlement{at(lanes[1], 99)}); err != nil || len(fenced) != 1 {
			t.Fatalf("turn %d: the former owner settled: fenced %v, %v", i, fenced, err)
		}
		lanes[1] = moved
		owner, other = other, owner
	}
}

// An owner that slept through its lease and comes back keeps what no other instance took,
// and can settle nothing of the rest.
func testReturningOwnerIsFenced(t *testing.T, db *stateDB) {
	a := db.store()
	if err := a.Join(t.Context(), "a", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	old := acquire(t, a, "a", 0, 1, 2, 3)
	b := db.joined("b")
	var taken []adapters.LaneState
	eventually(t, "lanes of an expired lease", func(context.Context) bool {
		lanes, err := b.Acquire(t.Context(), "b", "r", []int{0, 1, 2, 3}, 2)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, lanes...)
		return len(taken) >= 2
	})
	owned, err := a.Renew(t.Context(), "a", longLease)
	if err != nil || len(owned) != len(old)-len(taken) {
		t.Fatalf("a renewed %v, %v; b has taken %d", owned, err, len(taken))
	}
	for _, lane := range old {
		_, ours := owned[lane.LaneRef]
		fenced, err := a.Settle(t.Context(), []adapters.Settlement{at(lane, 5)})
		if err != nil || (len(fenced) == 0) != ours {
			t.Errorf("slot %d, ours %v: fenced %v, %v", lane.Slot, ours, fenced, err)
		}
	}
	settle(t, b, at(taken[0], 7))
}
