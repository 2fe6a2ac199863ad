package adaptertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func testPauseAndResume(t *testing.T, db *stateDB) {
	store, _ := db.acquired(0, 1)
	before := commands(t, store)
	pause := adapters.Pause{Route: "r", Reason: "maintenance", By: "alice"}
	if changed, err := store.Pause(t.Context(), pause); err != nil || !changed {
		t.Fatalf("pause: %v, %v", changed, err)
	}
	again := pause
	again.By = "bob"
	if changed, err := store.Pause(t.Context(), again); err != nil || changed {
		t.Errorf("a second pause: %v, %v", changed, err)
	}
	if after := commands(t, store); after[0] != before[0]+1 || after[1] != before[1]+1 {
		t.Errorf("counters went from %v to %v, want one more each", before, after)
	}
	if _, err := store.Acquire(t.Context(), "a", "r", []int{0, 1}, adapters.Slots); !errors.Is(err, adapters.ErrPaused) {
		t.Errorf("acquire: %v, want ErrPaused", err)
	}
	if _, err := store.Acquire(t.Context(), "a", "other", []int{0}, adapters.Slots); err != nil {
		t.Errorf("acquire of another route: %v", err)
	}
	got, err := store.Pauses(t.Context(), "r")
	if err != nil || len(got) != 1 || got[0].By != "alice" || got[0].Reason != "maintenance" || got[0].Address != "" || got[0].At.IsZero() {
		t.Errorf("pauses %+v, %v", got, err)
	}
	if changed, err := store.Resume(t.Context(), adapters.Pause{Route: "r", By: "bob"}); err != nil || !changed {
		t.Errorf("resume: %v, %v", changed, err)
	}
	if changed, err := store.Resume(t.Context(), adapters.Pause{Route: "r", By: "bob"}); err != nil || changed {
		t.Errorf("a second resume: %v, %v", changed, err)
	}
	if after := commands(t, store); after[0] != before[0]+2 {
		t.Errorf("counters went from %v to %v, want two more", before, after)
	}
	acquire(t, store, "a", 0, 1)
}

func testPauseOfAnAddress(t *testing.T, db *stateDB) {
	store, _ := db.acquired(0)
	for _, address := range []string{"https://a.example/x", "\xff\x00"} {
		if changed, err := store.Pause(t.Context(), adapters.Pause{Route: "r", Address: address}); err != nil || !changed {
			t.Fatalf("pause %q: %v, %v", address, changed, err)
		}
	}
	if _, err := store.Acquire(t.Context(), "a", "r", []int{0}, adapters.Slots); err != nil {
		t.Errorf("acquire beside a paused address: %v", err)
	}
	all, err := store.Pauses(t.Context(), "")
	if err != nil || len(all) != 2 {
		t.Fatalf("pauses %+v, %v", all, err)
	}
	found := map[string]bool{all[0].Address: true, all[1].Address: true}
	if !found["https://a.example/x"] || !found["\xff\x00"] {
		t.Errorf("addresses %v", found)
	}
	if changed, err := store.Resume(t.Context(), adapters.Pause{Route: "r", Address: "\xff\x00", By: "x"}); err != nil || !changed {
		t.Errorf("resume: %v, %v", changed, err)
	}
	if other, err := store.Pauses(t.Context(), "other"); err != nil || len(other) != 0 {
		t.Errorf("another route has pauses: %v, %v", other, err)
	}
}

// A group is paused independently of the route and its addresses, also one whose name is that of an address.
func testPauseOfAGroup(t *testing.T, db *stateDB) {
	store, _ := db.acquired(0)
	before := commands(t, store)
	for _, p := range []adapters.Pause{{Group: "g"}, {Group: "\xff\x00"}, {Group: "topic"}, {Address: "topic"}} {
		p.Route, p.By = "r", "alice"
		for i := range 2 {
			if changed, err := store.Pause(t.Context(), p); err != nil || changed != (i == 0) {
				t.Fatalf("pause %+v: %v, %v", p, changed, err)
			}
		}
	}
	if after := commands(t, store); after[0] != before[0]+4 {
		t.Errorf("counters went from %v to %v, want four more", before, after)
	}
	if _, err := store.Acquire(t.Context(), "a", "r", []int{0}, adapters.Slots); err != nil {
		t.Errorf("acquire beside a paused group: %v", err)
	}
	found := map[adapters.Pause]bool{}
	all, err := store.Pauses(t.Context(), "r")
	for _, p := range all {
		found[adapters.Pause{Group: p.Group, Address: p.Address}] = !p.OfRoute()
	}
	if err != nil || len(found) != 4 || !found[adapters.Pause{Group: "\xff\x00"}] || !found[adapters.Pause{Group: "topic"}] || !found[adapters.Pause{Address: "topic"}] {
		t.Fatalf("pauses %+v, %v", all, err)
	}
	if changed, err := store.Resume(t.Context(), adapters.Pause{Route: "r", Group: "topic", By: "x"}); err != nil || !changed {
		t.Errorf("resume: %v, %v", changed, err)
	}
	if left, err := store.Pauses(t.Context(), "r"); err != nil || len(left) != 3 {
		t.Errorf("left %+v, %v", left, err)
	}
}

func testReleaseSomeLanes(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2)
	if err := store.Release(t.Context(), "b", []adapters.LaneRef{lanes[2].LaneRef}); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(t.Context(), "a", []adapters.LaneRef{lanes[0].LaneRef, lanes[1].LaneRef}); err != nil {
		t.Fatal(err)
	}
	status, err := store.Lanes(t.Context())
	if err != nil || len(status) != 3 || status[0].Owner != "" || status[1].Owner != "" || status[2].Owner != "a" {
		t.Errorf("lanes %+v, %v", status, err)
	}
}

// A move fences the owner, takes the lanes from it and restarts it at the
// given place; parked messages and their numbers stay.
func testG3MoveFencesTheOwner(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	settle(t, store, parking(lanes[0], parked(4, "g", adapters.ParkedDead)), at(lanes[1], 20))
	to := map[int]adapters.Cursor{}
	for slot := range 3 {
		to[slot] = adapters.Cursor{Position: int64(100 + slot), Base: 7}
	}
	move := adapters.Move{Route: "r", Cursors: to, Beyond: map[int][]int64{1: {90, 95}}, Table: adapters.Table{Cluster: "c2", Name: "t2"}, Action: "seek", Detail: "100", By: "alice"}
	if err := store.Move(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if status, err := store.Lanes(t.Context()); err != nil || len(status[0].Beyond) != 0 || !slices.Equal(status[1].Beyond, move.Beyond[1]) {
		t.Errorf("settled behind the new cursors: %+v, %v", status, err)
	}
	if fenced, err := store.Settle(t.Context(), []adapters.Settlement{at(lanes[0], 50), at(lanes[1], 50)}); err != nil || len(fenced) != 2 {
		t.Errorf("fenced %v, %v; want both", fenced, err)
	}
	if owned, err := store.Renew(t.Context(), "a", longLease); err != nil || len(owned) != 0 {
		t.Errorf("still owned: %v, %v", owned, err)
	}
	for i, l := range acquire(t, store, "a", 0, 1, 2) {
		want := adapters.Cursor{Position: int64(100 + i), Base: 7}
		var before int64 // the third lane is new
		if i < len(lanes) {
			before = lanes[i].Generation()
		}
		if l.Generation() <= before || l.Revision < adapters.FirstRevision(time.Now().Add(-time.Hour)) {
			t.Errorf("lane %d has revision %d of generation %d after a move, want a later generation than %d", i, l.Revision, l.Generation(), before)
		}
		if l.New || l.Cursor != want || l.Table != move.Table || !slices.Equal(l.Beyond, move.Beyond[i]) || i == 0 && l.NextSeq != 5 {
			t.Errorf("lane %d: %+v, want the cursor %+v", i, l, want)
		}
	}
	if n := len(list(t, store, adapters.ParkedFilter{Route: "r"})); n != 1 {
		t.Errorf("%d parked messages, want 1", n)
	}
}

func testForget(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	settle(t, store, parking(lanes[0], parked(1, "g", adapters.ParkedDead), parked(2, "h", adapters.ParkedWaiting)))
	if _, err := store.Pause(t.Context(), adapters.Pause{Route: "r", Address: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Acquire(t.Context(), "a", "other", []int{0}, adapters.Slots); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Forget(t.Context(), "r", false, "bob"); !errors.Is(err, adapters.ErrAlive) {
		t.Errorf("forget of a living route: %v, want ErrAlive", err)
	}
	gone, err := store.Forget(t.Context(), "r", true, "bob")
	if want := (adapters.DeletedRoute{Lanes: 2, Parked: 2, Pauses: 1}); err != nil || gone != want {
		t.Errorf("forgot %+v, %v; want %+v", gone, err, want)
	}
	if status, err := store.Lanes(t.Context()); err != nil || len(status) != 1 || status[0].Route != "other" {
		t.Errorf("left are %+v, %v", status, err)
	}
	fresh := acquire(t, store, "a", 0)
	if !fresh[0].New || fresh[0].Epoch <= lanes[0].Epoch {
		t.Errorf("after it: %+v; want a new lane with an epoch above %d", fresh[0], lanes[0].Epoch)
	}
	if fenced, err := store.Settle(t.Context(), []adapters.Settlement{at(lanes[0], 50)}); err != nil || len(fenced) != 1 {
		t.Errorf("the owner of the forgotten lane was not fenced: %v, %v", fenced, err)
	}
}
