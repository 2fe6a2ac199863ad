package adaptertest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// operated parks one message of every status in two groups of slot 0, and one
// dead message in slot 1.
func operated(t *testing.T, db *stateDB) (adapters.OperatorStore, []adapters.LaneState) {
	t.Helper()
	store, lanes := db.acquired(0, 1)
	messages := []adapters.Parked{
		parked(1, "g", adapters.ParkedRetrying), parked(2, "g", adapters.ParkedWaiting),
		parked(3, "h", adapters.ParkedHeld), parked(4, "h", adapters.ParkedWaiting), parked(5, "h", adapters.ParkedDead),
	}
	for i := range messages {
		messages[i].ID, messages[i].Attempts = fmt.Sprintf("e%d", i+1), 7
	}
	messages[2].LastError = `it is 100% sure_ly broken\`
	messages[0].NextAttemptAt = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	elsewhere := parked(1, "k", adapters.ParkedDead)
	settle(t, store, parking(lanes[0], messages...), parking(lanes[1], elsewhere))
	return store, lanes
}

// commands returns the counters of slots 0 and 1.
func commands(t *testing.T, store adapters.OperatorStore) [2]int64 {
	t.Helper()
	owned, err := store.Renew(t.Context(), "a", longLease)
	if err != nil {
		t.Fatal(err)
	}
	return [2]int64{owned[adapters.LaneRef{Route: "r", Slot: 0}].Commands, owned[adapters.LaneRef{Route: "r", Slot: 1}].Commands}
}

func testListParkedFilters(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	for _, tt := range []struct {
		filter adapters.ParkedFilter
		want   []int64
	}{
		{adapters.ParkedFilter{}, []int64{1, 2, 3, 4, 5, 1}},
		{adapters.ParkedFilter{Limit: 2}, []int64{1, 2}},
		{adapters.ParkedFilter{Route: "r", Group: "h"}, []int64{3, 4, 5}},
		{adapters.ParkedFilter{Route: "other"}, []int64{}},
		{adapters.ParkedFilter{ID: "e4"}, []int64{4}},
		{adapters.ParkedFilter{Status: adapters.ParkedDead}, []int64{5, 1}},
		{adapters.ParkedFilter{Status: adapters.ParkedWaiting, Group: "g"}, []int64{2}},
		{adapters.ParkedFilter{Type: "t"}, []int64{1, 2, 3, 4, 5, 1}},
		{adapters.ParkedFilter{Type: "T"}, []int64{}},
		{adapters.ParkedFilter{Error: "100% SURE_"}, []int64{3}},
		{adapters.ParkedFilter{Error: "100 _sure"}, []int64{}},
		{adapters.ParkedFilter{Before: time.Now().Add(-time.Hour)}, []int64{}},
		{adapters.ParkedFilter{Before: time.Now().Add(time.Hour), Group: "h"}, []int64{3, 4, 5}},
		{adapters.ParkedFilter{After: adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r"}, Seq: 4}}, []int64{5, 1}},
	} {
		got, err := store.ListParked(t.Context(), tt.filter, 0)
		if err != nil || !slices.Equal(seqsOf(got), tt.want) {
			t.Errorf("%+v: %v, %v; want %v", tt.filter, seqsOf(got), err, tt.want)
		}
	}
	if _, err := store.ListParked(t.Context(), adapters.ParkedFilter{Status: "lost"}, 0); err == nil {
		t.Error("a status that does not exist was listed")
	}
}

// change carries out a command to its end, in steps of at most limit (0: the default).
func change(t *testing.T, store adapters.OperatorStore, action adapters.ParkedAction, f adapters.ParkedFilter) int {
	t.Helper()
	command := adapters.ParkedCommand{Action: action, Filter: f, All: f.IsZero(), By: "alice"}
	counts, err := store.CountParked(t.Context(), command)
	if err != nil {
		t.Fatalf("count for %s %+v: %v", action, f, err)
	}
	expected, changed := 0, 0
	for _, c := range counts {
		expected += c.Count
	}
	for {
		step, err := store.ChangeParked(t.Context(), command)
		if err != nil {
			t.Fatalf("%s %+v: %v", action, f, err)
		}
		if f.Limit > 0 && step.Changed > f.Limit {
			t.Fatalf("%s: a step of %d with a limit of %d", action, step.Changed, f.Limit)
		}
		changed += step.Changed
		command.Filter.After = step.Last
		if !step.More {
			break
		}
	}
	if changed != expected {
		t.Errorf("%s %+v changed %d, counted were %d", action, f, changed, expected)
	}
	return changed
}

func testRedrive(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	before := commands(t, store)
	if n := change(t, store, adapters.ParkedRedrive, adapters.ParkedFilter{Route: "r", Group: "h"}); n != 2 {
		t.Fatalf("redrove %d; want the held and the dead one", n)
	}
	for _, p := range list(t, store, adapters.ParkedFilter{Group: "h"}) {
		redriven := p.Status == adapters.ParkedRetrying && p.Attempts == 0 && !p.NextAttemptAt.IsZero() &&
			p.NextAttemptAt.Before(time.Now().Add(time.Hour))
		waits := p.Status == adapters.ParkedWaiting && p.Attempts == 7
		if redriven == (p.Seq == 4) || waits != (p.Seq == 4) {
			t.Errorf("after the redrive: %+v", p)
		}
	}
	if after := commands(t, store); after[0] <= before[0] || after[1] != before[1] {
		t.Errorf("counters went from %v to %v; only slot 0 was touched", before, after)
	}
	if n := change(t, store, adapters.ParkedRedrive, adapters.ParkedFilter{Status: adapters.ParkedRetrying, Limit: 1}); n != 3 {
		t.Fatalf("redrove %d in steps of 1, want the three that are retrying, once each", n)
	}
	if first := list(t, store, adapters.ParkedFilter{ID: "e1"}); first[0].Attempts != 0 || first[0].NextAttemptAt.Year() == 2040 {
		t.Errorf("the first by seq was not redriven: %+v", first[0])
	}
	for _, f := range []adapters.ParkedFilter{{ID: "unknown"}, {Status: adapters.ParkedWaiting}} {
		if n := change(t, store, adapters.ParkedRedrive, f); n != 0 {
			t.Errorf("%+v: redrove %d", f, n)
		}
	}
}

func testSkip(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	before := commands(t, store)
	if n := change(t, store, adapters.ParkedSkip, adapters.ParkedFilter{Group: "h"}); n != 1 {
		t.Fatalf("skipped %d of group h; want the held one: the waiting one failed nothing, the dead one holds nothing", n)
	}
	for _, f := range []adapters.ParkedFilter{{Status: adapters.ParkedWaiting, Group: "g"}, {ID: "e4"}} {
		if n := change(t, store, adapters.ParkedSkip, f); n != 1 {
			t.Fatalf("%+v: skipped %d waiting messages that were named", f, n)
		}
	}
	if got := seqsOf(list(t, store, adapters.ParkedFilter{})); !slices.Equal(got, []int64{1, 5, 1}) {
		t.Errorf("left are %v", got)
	}
	if after := commands(t, store); after[0] < before[0]+3 || after[1] != before[1] {
		t.Errorf("counters went from %v to %v", before, after)
	}
}

func testPurge(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	before := commands(t, store)
	if n := change(t, store, adapters.ParkedPurge, adapters.ParkedFilter{Before: time.Now().Add(-time.Hour)}); n != 0 {
		t.Fatalf("purged %d that were parked within the last hour", n)
	}
	if n := change(t, store, adapters.ParkedPurge, adapters.ParkedFilter{Before: time.Now().Add(time.Hour), Limit: 1}); n != 2 {
		t.Fatalf("purged %d, want the two dead ones", n)
	}
	if got := seqsOf(list(t, store, adapters.ParkedFilter{})); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("left are %v", got)
	}
	if after := commands(t, store); after != before {
		t.Errorf("counters went from %v to %v: owners load for nothing", before, after)
	}
}

// testCommandsInSteps redrives many messages of many groups and lanes in small
// steps: each is changed exactly once, also when the step changes nothing that
// the filter goes by.
func testCommandsInSteps(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 7, 15)
	const each = 230
	var all []adapters.Settlement
	for _, lane := range lanes {
		var messages []adapters.Parked
		for n := range int64(each) {
			p := parked(n+1, fmt.Sprintf("g%d", n%5), adapters.ParkedRetrying)
			p.Attempts, p.NextAttemptAt = 3, time.Now().Add(time.Hour)
			messages = append(messages, p)
		}
		all = append(all, parking(lane, messages...))
	}
	settle(t, store, all...)
	if n := change(t, store, adapters.ParkedRedrive, adapters.ParkedFilter{Limit: 50}); n != len(lanes)*each {
		t.Errorf("redrove %d of %d", n, len(lanes)*each)
	}
	for _, p := range list(t, store, adapters.ParkedFilter{}) {
		if p.Attempts != 0 {
			t.Fatalf("not redriven: %+v", p)
		}
	}
}

func testCommandsNeedAFilter(t *testing.T, db *stateDB) {
	store, _ := operated(t, db)
	for _, c := range []adapters.ParkedCommand{
		{Action: adapters.ParkedRedrive},
		{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{Limit: 3}},
		{Action: adapters.ParkedPurge, Filter: adapters.ParkedFilter{After: adapters.ParkedKey{Seq: 1}}},
		{Action: "burn", All: true},
	} {
		if _, err := store.ChangeParked(t.Context(), c); err == nil {
			t.Errorf("%+v was carried out", c)
		}
	}
	if got := len(list(t, store, adapters.ParkedFilter{})); got != 6 {
		t.Errorf("%d messages left of 6", got)
	}
}

// testCommandsWhileSettling runs operator commands while an owner parks
// and unparks: no call fails, and the counters account for the commands.
func testCommandsWhileSettling(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2, 3)
	operator := db.store()
	const rounds = 40
	var all sync.WaitGroup
	all.Go(func() {
		for n := int64(1); n <= rounds; n++ {
			settlements := make([]adapters.Settlement, len(lanes))
			for i, lane := range lanes {
				settlements[i] = parking(lane, parked(n, "", adapters.ParkedRetrying))
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
			step, err := operator.ChangeParked(t.Context(), adapters.ParkedCommand{
				Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{Route: "r"}, By: "op",
			})
			if err != nil {
				t.Errorf("skip: %v", err)
				return
			}
			discarded += step.Changed
		}
	})
	all.Wait()
	if left := len(list(t, store, adapters.ParkedFilter{})); left+discarded != rounds*len(lanes) {
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
	if got.Since.IsZero() || status[2].Since.Before(got.Since) {
		t.Errorf("acquired at %v, and then another at %v", got.Since, status[2].Since)
	}
	got.UpdatedAt, got.Since = time.Time{}, time.Time{}
	if len(got.Beyond) == 0 {
		got.Beyond = nil
	}
	want := adapters.LaneStatus{
		LaneRef: lanes[0].LaneRef, Owner: "a", Alive: true, Epoch: lanes[0].Epoch,
		Cursor: adapters.Cursor{Position: 1}, Retrying: 1, Waiting: 2, Held: 1, Dead: 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if status[1].Dead != 1 || status[1].Waiting != 0 || status[2].Slot != 9 {
		t.Errorf("the others are %+v", status[1:])
	}
}
