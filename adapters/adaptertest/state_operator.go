package adaptertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// operated parks one message of every status in two groups of slot 0, and one
// dead message in slot 1.
func operated(t *testing.T, db *stateDB) (outbox.StateStore, []outbox.LaneState) {
	t.Helper()
	store, lanes := db.acquired(0, 1)
	messages := []outbox.Parked{
		parked(1, "g", outbox.ParkedRetrying), parked(2, "g", outbox.ParkedWaiting),
		parked(3, "h", outbox.ParkedHeld), parked(4, "h", outbox.ParkedWaiting), parked(5, "h", outbox.ParkedDead),
	}
	for i := range messages {
		messages[i].ID, messages[i].Attempts = fmt.Sprintf("e%d", i+1), 7
	}
	messages[0].NextAttemptAt = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	elsewhere := parked(1, "k", outbox.ParkedDead)
	settle(t, store, parking(lanes[0], messages...), parking(lanes[1], elsewhere))
	return store, lanes
}

// commands returns the counters of slots 0 and 1.
func commands(t *testing.T, store outbox.StateStore) [2]int64 {
	t.Helper()
	owned, err := store.Renew(t.Context(), "a", longLease)
	if err != nil {
		t.Fatal(err)
	}
	return [2]int64{owned[outbox.LaneRef{Route: "r", Slot: 0}], owned[outbox.LaneRef{Route: "r", Slot: 1}]}
}

func testListParkedFilters(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	for _, tt := range []struct {
		filter outbox.ParkedFilter
		want   []int64
	}{
		{outbox.ParkedFilter{}, []int64{1, 2, 3, 4, 5, 1}},
		{outbox.ParkedFilter{Limit: 2}, []int64{1, 2}},
		{outbox.ParkedFilter{Route: "r", Group: "h"}, []int64{3, 4, 5}},
		{outbox.ParkedFilter{Route: "other"}, []int64{}},
		{outbox.ParkedFilter{ID: "e4"}, []int64{4}},
		{outbox.ParkedFilter{Status: outbox.ParkedDead}, []int64{5, 1}},
		{outbox.ParkedFilter{Status: outbox.ParkedWaiting, Group: "g"}, []int64{2}},
	} {
		got, err := store.ListParked(t.Context(), tt.filter)
		if err != nil || !slices.Equal(seqsOf(got), tt.want) {
			t.Errorf("%+v: %v, %v; want %v", tt.filter, seqsOf(got), err, tt.want)
		}
	}
	if _, err := store.ListParked(t.Context(), outbox.ParkedFilter{Status: "lost"}); err == nil {
		t.Error("a status that does not exist was listed")
	}
}

func testRedrive(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	before := commands(t, store)
	n, err := store.Redrive(t.Context(), outbox.ParkedFilter{Route: "r", Group: "h"}, "alice")
	if err != nil || n != 2 {
		t.Fatalf("redrove %d, %v; want the held and the dead one", n, err)
	}
	for _, p := range list(t, store, outbox.ParkedFilter{Group: "h"}) {
		redriven := p.Status == outbox.ParkedRetrying && p.Attempts == 0 && !p.NextAttemptAt.IsZero() &&
			p.NextAttemptAt.Before(time.Now().Add(time.Hour))
		waits := p.Status == outbox.ParkedWaiting && p.Attempts == 7
		if redriven == (p.Seq == 4) || waits != (p.Seq == 4) {
			t.Errorf("after the redrive: %+v", p)
		}
	}
	if after := commands(t, store); after[0] <= before[0] || after[1] != before[1] {
		t.Errorf("counters went from %v to %v; only slot 0 was touched", before, after)
	}

	if n, err = store.Redrive(t.Context(), outbox.ParkedFilter{Status: outbox.ParkedRetrying, Limit: 1}, "alice"); err != nil || n != 1 {
		t.Fatalf("redrove %d with a limit of 1, %v", n, err)
	}
	if first := list(t, store, outbox.ParkedFilter{ID: "e1"}); first[0].Attempts != 0 || first[0].NextAttemptAt.Year() == 2040 {
		t.Errorf("the first by seq was not redriven: %+v", first[0])
	}
	if n, err = store.Redrive(t.Context(), outbox.ParkedFilter{ID: "unknown"}, "alice"); err != nil || n != 0 {
		t.Errorf("redrove %d unknown messages, %v", n, err)
	}
}

func testDiscard(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	before := commands(t, store)
	n, err := store.Discard(t.Context(), outbox.ParkedFilter{Group: "h"}, "bob")
	if err != nil || n != 2 {
		t.Fatalf("discarded %d, %v; want 2: waiting messages have failed nothing", n, err)
	}
	if n, err = store.Discard(t.Context(), outbox.ParkedFilter{Status: outbox.ParkedWaiting, Group: "g"}, "bob"); err != nil || n != 1 {
		t.Fatalf("discarded %d waiting messages by name, %v", n, err)
	}
	if got := seqsOf(list(t, store, outbox.ParkedFilter{})); !slices.Equal(got, []int64{1, 4, 1}) {
		t.Errorf("left are %v", got)
	}
	if after := commands(t, store); after[0] < before[0]+2 || after[1] != before[1] {
		t.Errorf("counters went from %v to %v", before, after)
	}
}

func testCommandsNeedAFilter(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	for _, f := range []outbox.ParkedFilter{{}, {Limit: 3}} {
		if _, err := store.Redrive(t.Context(), f, "eve"); err == nil {
			t.Errorf("redrive with %+v", f)
		}
		if _, err := store.Discard(t.Context(), f, "eve"); err == nil {
			t.Errorf("discard with %+v", f)
		}
	}
	if got := len(list(t, store, outbox.ParkedFilter{})); got != 6 {
		t.Errorf("%d messages left of 6", got)
	}
}

// testCommandsWhileSettling runs operator commands beside an owner that parks
// and unparks: nobody fails, and the counters account for the commands.
func testCommandsWhileSettling(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2, 3)
	operator := db.store()
	const rounds = 40
	var all sync.WaitGroup
	all.Go(func() {
		for n := int64(1); n <= rounds; n++ {
			settlements := make([]outbox.Settlement, len(lanes))
			for i, lane := range lanes {
				settlements[i] = parking(lane, parked(n, "", outbox.ParkedDead))
			}
			slices.Reverse(settlements)
			if fenced, err := store.Settle(t.Context(), settlements); err != nil || len(fenced) > 0 {
				t.Errorf("settle %d: %v, %v", n, fenced, err)
				return
			}
		}
	})
	discarded := 0
	all.Go(func() {
		for range rounds {
			n, err := operator.Discard(t.Context(), outbox.ParkedFilter{Route: "r", Status: outbox.ParkedDead}, "op")
			if err != nil {
				t.Errorf("discard: %v", err)
				return
			}
			discarded += n
		}
	})
	all.Wait()
	if left := len(list(t, store, outbox.ParkedFilter{})); left+discarded != rounds*len(lanes) {
		t.Errorf("%d left and %d discarded of %d", left, discarded, rounds*len(lanes))
	}
	if c := commands(t, store); discarded > 0 && c[0]+c[1] == 0 {
		t.Error("messages were discarded and no counter was raised")
	}
}

func testLanesStatus(t *testing.T, db *stateDB) {
	store, lanes := operated(t, db)
	acquire(t, store, "a", 9)
	status, err := store.Lanes(t.Context())
	if err != nil || len(status) != 3 {
		t.Fatalf("%d lanes, %v", len(status), err)
	}
	got := status[0]
	if got.UpdatedAt.IsZero() || !status[2].UpdatedAt.IsZero() {
		t.Errorf("settled at %v, never settled at %v", got.UpdatedAt, status[2].UpdatedAt)
	}
	got.UpdatedAt = time.Time{}
	want := outbox.LaneStatus{
		LaneRef: lanes[0].LaneRef, Owner: "a", Alive: true, Epoch: lanes[0].Epoch,
		Cursor: outbox.Cursor{Position: 1}, Retrying: 1, Waiting: 2, Held: 1, Dead: 1,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if status[1].Dead != 1 || status[1].Waiting != 0 || status[2].Slot != 9 {
		t.Errorf("the others are %+v", status[1:])
	}
}
