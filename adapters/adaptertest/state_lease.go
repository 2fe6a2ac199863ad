package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func testAcquireOnlyGivenSlots(t *testing.T, db *stateDB) {
	store := db.joined("a")
	acquire(t, store, "a", 2, 4)
	if _, err := store.Acquire(t.Context(), "a", "other", []int{2}, adapters.Slots); err != nil {
		t.Fatal(err)
	}
	owned, err := store.Renew(t.Context(), "a", longLease)
	if err != nil {
		t.Fatal(err)
	}
	want := []adapters.LaneRef{{Route: "r", Slot: 2}, {Route: "r", Slot: 4}, {Route: "other", Slot: 2}}
	for _, ref := range want {
		if _, ok := owned[ref]; !ok {
			t.Errorf("%v is not owned: %v", ref, owned)
		}
	}
	if len(owned) != len(want) {
		t.Errorf("owned are %v", owned)
	}
	for _, slot := range []int{-1, adapters.MaxLanes} {
		if _, err := store.Acquire(t.Context(), "a", "r", []int{slot}, adapters.Slots); err == nil {
			t.Errorf("slot %d was acquired", slot)
		}
	}
}

// Whatever a renewal has returned before, the next one returns what is owned then, and what was returned before stays as it is.
func testRenewalsAreOfNow(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2)
	sortLanes(lanes)
	if _, err := store.Acquire(t.Context(), "a", "other", []int{0}, adapters.Slots); err != nil {
		t.Fatal(err)
	}
	type marks = map[adapters.LaneRef]adapters.LaneMark
	var results, copies []marks // what renewals have returned, and as it was then
	renew := func(after string, owned ...adapters.LaneRef) marks {
		t.Helper()
		marks, err := store.Renew(t.Context(), "a", longLease)
		if err != nil {
			t.Fatal(err)
		}
		if len(marks) != len(owned) {
			t.Errorf("%s: owned are %v, want %v", after, marks, owned)
		}
		for _, ref := range owned {
			if marks[ref].Epoch == 0 {
				t.Errorf("%s: %v is not owned: %v", after, ref, marks)
			}
		}
		results, copies = append(results, marks), append(copies, maps.Clone(marks))
		for i := range results {
			if !maps.Equal(results[i], copies[i]) {
				t.Errorf("%s: renewal %d returned %v, and that is %v now", after, i+1, copies[i], results[i])
			}
		}
		return marks
	}
	release := func(refs ...adapters.LaneRef) {
		t.Helper()
		if err := store.Release(t.Context(), "a", refs); err != nil {
			t.Fatal(err)
		}
	}
	r0, r1, r2, other := lanes[0].LaneRef, lanes[1].LaneRef, lanes[2].LaneRef, adapters.LaneRef{Route: "other"}
	renew("at first", r0, r1, r2, other)
	before := renew("unchanged", r0, r1, r2, other)
	settlement := at(lanes[0], 7)
	settlement.Revision = before[r0].Revision + 1
	settle(t, store, settlement)
	settled := renew("after a settle", r0, r1, r2, other)
	if settled[r0].Revision != before[r0].Revision+1 || settled[r1] != before[r1] || settled[other] != before[other] {
		t.Errorf("after a settle of %v: %v, before it %v", r0, settled, before)
	}
	release(r1)
	renew("after a release", r0, r2, other)
	release(other)
	renew("after a release of all of a route", r0, r2)
	acquire(t, store, "a", 1)
	if again := renew("acquired again", r0, r1, r2); again[r1].Epoch <= before[r1].Epoch || again[r0] != settled[r0] {
		t.Errorf("acquired again: %v, before it %v", again, before)
	}
}

func testJoinFirst(t *testing.T, db *stateDB) {
	store := db.store()
	if _, err := store.Acquire(t.Context(), "a", "r", []int{0}, adapters.Slots); err == nil {
		t.Error("an instance that has not joined acquired a lane")
	}
	if _, err := store.Renew(t.Context(), "a", longLease); err == nil {
		t.Error("an instance that has not joined renewed its lease")
	}
	if err := store.Leave(t.Context(), "a"); err == nil {
		t.Error("an instance that has not joined left")
	}
	if err := store.Join(t.Context(), "", longLease); err == nil {
		t.Error("an instance without an id joined")
	}
	if err := store.Join(t.Context(), "a", 0); err == nil {
		t.Error("an instance joined without a lease")
	}
	for range 2 {
		if err := store.Join(t.Context(), "a", longLease); err != nil {
			t.Errorf("join: %v", err)
		}
	}
}

func testLeaveReleases(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	settle(t, store, at(lanes[0], 8))
	if err := store.Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	status, err := store.Lanes(t.Context())
	if err != nil || len(status) != 2 || status[0].Owner != "" || status[0].Alive {
		t.Fatalf("after leaving the lanes are %+v, %v", status, err)
	}
	next := db.joined("b")
	got := acquire(t, next, "b", 0, 1)
	if len(got) != 2 || got[0].Cursor.Position != 8 || got[0].Epoch <= lanes[0].Epoch {
		t.Fatalf("the next instance got %+v", got)
	}
	fenced, err := store.Settle(t.Context(), []adapters.Settlement{at(lanes[0], 9)})
	if err != nil || len(fenced) != 1 {
		t.Fatalf("who left settled: fenced %v, %v", fenced, err)
	}
}

func testLivingOwnerKeepsLanes(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	other := db.joined("b")
	if got := acquire(t, other, "b", 0, 1, 2); len(got) != 1 || got[0].Slot != 2 {
		t.Fatalf("b acquired %+v beside a living owner", got)
	}
	settle(t, store, at(lanes[0], 1), at(lanes[1], 1)) // the epochs were left alone
}

func testLeaseExpires(t *testing.T, db *stateDB) {
	store := db.store()
	if err := store.Join(t.Context(), "a", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	old := acquire(t, store, "a", 0, 1)
	other := db.joined("b")
	eventually(t, "lanes of an expired lease", func(context.Context) bool {
		return len(acquire(t, other, "b", 0, 1)) == 2
	})
	fenced, err := store.Settle(t.Context(), []adapters.Settlement{at(old[0], 1), at(old[1], 1)})
	if err != nil || len(fenced) != 2 {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
}

func testRenewTellsLostLanes(t *testing.T, db *stateDB) {
	store := db.store()
	if err := store.Join(t.Context(), "a", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	acquire(t, store, "a", 0, 1)
	other := db.joined("b")
	eventually(t, "lane of an expired lease", func(context.Context) bool {
		return len(acquire(t, other, "b", 1)) == 1
	})
	owned, err := store.Renew(t.Context(), "a", longLease)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := owned[adapters.LaneRef{Route: "r", Slot: 0}]; !ok || len(owned) != 1 {
		t.Fatalf("a owns %v, want r/00 only", owned)
	}
	if got := acquire(t, other, "b", 0); len(got) != 0 {
		t.Fatalf("b acquired %+v after a renewed", got)
	}
}

func testAcquireRace(t *testing.T, db *stateDB) {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	var mu sync.Mutex
	owners := map[int][]string{}
	var all sync.WaitGroup
	for i := range 4 {
		instance := fmt.Sprintf("i%d", i)
		store := db.joined(instance)
		all.Go(func() {
			lanes, err := store.Acquire(t.Context(), instance, "r", slots, adapters.Slots)
			if err != nil {
				t.Errorf("%s: %v", instance, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, lane := range lanes {
				owners[lane.Slot] = append(owners[lane.Slot], instance)
			}
		})
	}
	all.Wait()
	for _, slot := range slots {
		if len(owners[slot]) != 1 {
			t.Errorf("slot %d was acquired by %v", slot, owners[slot])
		}
	}
}

func testSecondInstanceRefused(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	second := db.store()
	if err := second.Join(t.Context(), "b", longLease); !errors.Is(err, adapters.ErrSecondInstance) {
		t.Fatalf("a second instance joined: %v", err)
	}
	settle(t, store, at(lanes[0], 3)) // the first is not disturbed
	if err := store.Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := second.Join(t.Context(), "b", longLease); err != nil {
		t.Fatalf("after the first has left: %v", err)
	}
	if got := acquire(t, second, "b", 0); len(got) != 1 || got[0].Cursor.Position != 3 {
		t.Fatalf("acquired %+v", got)
	}
}

func testDeadInstanceReplaced(t *testing.T, db *stateDB) {
	store, _ := db.acquired(0)
	second := db.store()
	if err := store.Close(); err != nil { // without leaving
		t.Fatal(err)
	}
	if err := second.Join(t.Context(), "b", longLease); err != nil {
		t.Fatalf("after the first has ended without leaving: %v", err)
	}
	if got := acquire(t, second, "b", 0); len(got) != 1 {
		t.Fatalf("acquired %+v", got)
	}
}
