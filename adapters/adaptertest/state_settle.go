package adaptertest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func sortLanes(lanes []adapters.LaneState) []adapters.LaneState {
	slices.SortFunc(lanes, func(a, b adapters.LaneState) int { return cmp.Compare(a.Slot, b.Slot) })
	return lanes
}

func testMigrateTwice(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	settle(t, store, at(lanes[0], 9))
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate again: %v", err)
	}
	if present, newest, err := store.StateVersion(t.Context()); err != nil || present != newest || newest == 0 {
		t.Errorf("after migrating: version %d of %d, %v", present, newest, err)
	}
	if again := acquire(t, store, "a", 0); again[0].Cursor.Position != 9 {
		t.Fatalf("migrating again lost the cursor: %+v", again[0])
	}

	var together sync.WaitGroup
	for range 3 {
		other := db.open()
		t.Cleanup(func() { _ = other.Close() })
		together.Go(func() {
			if err := other.Migrate(t.Context()); err != nil {
				t.Errorf("migrate beside others: %v", err)
			}
		})
	}
	together.Wait()
}

// testMigrateCalledOff calls migrations off at any moment. The next one goes on, also over the same connections.
func testMigrateCalledOff(t *testing.T, db *stateDB) {
	store := db.open()
	t.Cleanup(func() { _ = store.Close() })
	for begun, pause := time.Now(), time.Duration(0); ; pause += time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), pause)
		err := store.Migrate(ctx)
		cancel()
		if err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the migration that nobody disturbs does not end: %v", err)
		}
	}
	if present, newest, err := store.StateVersion(t.Context()); err != nil || present != newest {
		t.Errorf("after migrating: version %d of %d, %v", present, newest, err)
	}
}

func testSettleRoundTrip(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 3, 15)
	for _, lane := range lanes {
		if !lane.New || lane.NextSeq != 1 || lane.Epoch < 1 || lane.Route != "r" {
			t.Fatalf("a new lane is %+v", lane)
		}
	}
	full := adapters.Settlement{
		LaneRef: lanes[1].LaneRef, Epoch: lanes[1].Epoch, NextSeq: 7, Table: adapters.Table{Cluster: "c-1", Name: "t-1"}, Revision: 3,
		Cursor: adapters.Cursor{Position: 42, Snapshot: "10:20:11,12", Window: "12:22:", Paged: 5, Base: 3, Anchor: adapters.Anchor{Slot: 2, Born: -5, Sum: 1<<63 + 7}},
		Beyond: []int64{43, 45, 1 << 62},
	}
	settle(t, store, at(lanes[0], 1), full)

	again := acquire(t, store, "a", 0, 3, 15)
	want := adapters.LaneState{
		LaneRef: full.LaneRef, Cursor: full.Cursor, Beyond: full.Beyond,
		NextSeq: 7, Table: full.Table, LaneMark: adapters.LaneMark{Epoch: again[1].Epoch, Revision: 3},
	}
	if !reflect.DeepEqual(again[1], want) || want.Epoch <= full.Epoch {
		t.Errorf("got  %+v\nwant %+v", again[1], want)
	}
	if again[0].New || !again[2].New {
		t.Errorf("settled lane is new: %t, lane never settled is new: %t", again[0].New, again[2].New)
	}
	next := at(again[1], 50)
	next.Confirmed, next.Revision = 3, 4
	settle(t, store, next)
	if last := acquire(t, store, "a", 3); len(last[0].Beyond) != 0 || last[0].Cursor != (adapters.Cursor{Position: 50}) {
		t.Errorf("the second settle left something of the first: %+v", last[0])
	}
	if fenced, err := store.Settle(t.Context(), nil); err != nil || fenced != nil {
		t.Errorf("settling nothing: %v, %v", fenced, err)
	}
}

func testFenceStaleEpoch(t *testing.T, db *stateDB) {
	store, old := db.acquired(0, 1, 2)
	settle(t, store, parking(old[0], parked(1, "g", adapters.ParkedWaiting)))
	current := acquire(t, store, "a", 0)[0] // raises the epoch of slot 0 only

	stale := parking(old[0], parked(2, "h", adapters.ParkedDead))
	stale.Cursor.Position, stale.Unpark = 99, []int64{1}
	for name, settlements := range map[string][]adapters.Settlement{
		"cursors only":     {at(old[0], 99), at(old[1], 10)},
		"with parked rows": {stale, parking(old[1], parked(1, "x", adapters.ParkedDead)), at(old[2], 10)},
	} {
		fenced, err := store.Settle(t.Context(), settlements)
		if err != nil || !slices.Equal(fenced, []adapters.LaneRef{old[0].LaneRef}) {
			t.Fatalf("%s: fenced %v, error %v", name, fenced, err)
		}
	}
	if got := seqsOf(list(t, store, adapters.ParkedFilter{})); !slices.Equal(got, []int64{1, 1}) {
		t.Errorf("parked seqs are %v; a stale owner wrote some", got)
	}
	lanes := acquire(t, store, "a", 0, 1, 2)
	if lanes[0].Cursor.Position != 1 || lanes[0].NextSeq != 2 || lanes[0].Epoch <= current.Epoch {
		t.Errorf("a stale owner settled: %+v", lanes[0])
	}
	if lanes[2].Cursor.Position != 10 {
		t.Errorf("the lane beside a fenced one was not settled: %+v", lanes[2])
	}
}

func testSettleIsAtomic(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	first := parking(lanes[0], parked(1, "g", adapters.ParkedWaiting))
	settle(t, store, first)

	moved := parking(lanes[0], parked(2, "g", adapters.ParkedWaiting))
	moved.Cursor.Position, moved.Unpark = 50, []int64{1}
	broken := parking(lanes[1], parked(1, "g", "no such status"))
	if _, err := store.Settle(t.Context(), []adapters.Settlement{moved, broken}); err == nil {
		t.Fatal("a status that does not exist was settled")
	}
	if got := seqsOf(list(t, store, adapters.ParkedFilter{})); !slices.Equal(got, []int64{1}) {
		t.Errorf("parked seqs are %v after a failed settle", got)
	}
	if again := acquire(t, store, "a", 0, 1); again[0].Cursor.Position != 1 || !again[1].New {
		t.Errorf("a failed settle moved cursors: %+v", again)
	}
}

func testSettleRefusesTwins(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(5)
	_, err := store.Settle(t.Context(), []adapters.Settlement{at(lanes[0], 1), at(lanes[0], 2)})
	if err == nil || !strings.Contains(err.Error(), "r/05") {
		t.Fatalf("one lane settled twice in one call: %v", err)
	}
}

// testFenceWhileSettling takes the lanes over in the middle of settles: what
// was settled before counts, nothing after does.
func testFenceWhileSettling(t *testing.T, db *stateDB) {
	slots := []int{0, 1, 2, 3, 4, 5, 6, 7}
	store, old := db.acquired(slots...)
	settled := make(chan int64, 1)
	started := make(chan struct{})
	go func() {
		var position int64
		defer func() { settled <- position }()
		for n := int64(1); ; n++ {
			all := make([]adapters.Settlement, len(old))
			for i, lane := range old {
				all[i] = parking(lane, parked(n, "", adapters.ParkedDead))
				all[i].Cursor.Position = n
			}
			fenced, err := store.Settle(t.Context(), all)
			if err != nil {
				t.Errorf("settle %d: %v", n, err)
				return
			}
			if len(fenced) > 0 {
				if len(fenced) != len(old) {
					t.Errorf("lanes acquired together were fenced apart: %v", fenced)
				}
				return
			}
			position = n
			if n == 3 {
				close(started)
			}
		}
	}()
	<-started
	lanes := acquire(t, store, "a", slots...)
	position := <-settled
	for _, lane := range lanes {
		if lane.Cursor.Position != position || lane.NextSeq != position+1 {
			t.Errorf("%v stands at %d with seq %d, settled was %d", lane.LaneRef, lane.Cursor.Position, lane.NextSeq, position)
		}
	}
	if got := len(list(t, store, adapters.ParkedFilter{})); got != len(old)*int(position) {
		t.Errorf("%d messages parked, want %d", got, len(old)*int(position))
	}
}

func testSettleCancelled(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Settle(ctx, []adapters.Settlement{at(lanes[0], 5)}); err == nil {
		t.Fatal("a settle with a cancelled context succeeded")
	}
	settle(t, store, at(lanes[0], 6))
}

func testParkMany(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	n := cmp.Or(db.many, 3000)
	many := make([][]adapters.Parked, 2)
	for i := range n {
		for l := range many {
			many[l] = append(many[l], parked(int64(i+1), fmt.Sprintf("g%d", i%7), adapters.ParkedWaiting))
		}
	}
	settle(t, store, parking(lanes[0], many[0]...), parking(lanes[1], many[1]...))
	gone := at(lanes[0], 2)
	for i := range n {
		gone.Unpark = append(gone.Unpark, int64(i+1))
	}
	settle(t, store, gone, at(lanes[1], 2))
	left := list(t, store, adapters.ParkedFilter{})
	if len(left) != n || left[0].Slot != 1 {
		t.Fatalf("%d messages left, want %d, all of slot 1", len(left), n)
	}
}
