package outbox

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func tsidsAt(t *testing.T, node int, now func() time.Time) *TSIDs {
	t.Helper()
	ids, err := NewTSIDs(node)
	if err != nil {
		t.Fatal(err)
	}
	if now != nil {
		ids.now = now
	}
	return ids
}

// TestTSIDsAreAsTheFormatHasThem checks known values: the example of
// FlowCatalyst's document, and the smallest and the greatest number.
func TestTSIDsAreAsTheFormatHasThem(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]time.Time{
		"0HZXEQ5Y8JY5Z": time.Date(2024, 11, 24, 7, 45, 16, 786e6, time.UTC),
		"0000000000000": time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		"FZZZZZZZZZZZZ": time.UnixMilli(TSIDEpoch + 1<<42 - 1).UTC(),
	} {
		got, err := TSIDTime(id)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %v (%v), want %v", id, got, err, want)
		}
	}
	if got := formatTSID(648428983046207679); got != "0HZXEQ5Y8JY5Z" {
		t.Errorf("648428983046207679 is %s", got)
	}
	for _, bad := range []string{"", "0HZXEQ5Y8JY5", "0HZXEQ5Y8JY5Z0", "0hzxeq5y8jy5z", "0HZXEQ5Y8JY5I", "0HZXEQ5Y8JY5é", "G000000000000"} {
		if err := CheckTSID(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
		if _, err := TSIDTime(bad); err == nil {
			t.Errorf("%q has a time", bad)
		}
	}
}

func TestTSIDsGrowWhileTheClockStandsOrGoesBack(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ids := tsidsAt(t, 5, func() time.Time { return clock })
	last := ""
	for _, step := range []time.Duration{0, 0, time.Second, -time.Hour, 0, 2 * time.Hour} {
		clock = clock.Add(step)
		for range 3000 { // more than are left of a counter
			id, err := ids.Next()
			if err != nil || id <= last || CheckTSID(id) != nil {
				t.Fatalf("%q (%v) after %q", id, err, last)
			}
			last = id
		}
	}
	if at, err := TSIDTime(last); err != nil || at.Before(clock) || at.After(clock.Add(time.Second)) {
		t.Errorf("the last id says %v, the clock %v", at, clock)
	}
}

func TestTSIDsOfNodesDiffer(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.UnixMilli(TSIDEpoch + 1000) }
	seen := map[string]bool{}
	for node := range 20 {
		ids := tsidsAt(t, node, now)
		for range 500 {
			id, err := ids.Next()
			if err != nil || seen[id] {
				t.Fatalf("%q twice (%v)", id, err)
			}
			seen[id] = true
		}
	}
	if _, err := NewTSIDs(TSIDNodes); err == nil || !strings.Contains(err.Error(), "1023") {
		t.Errorf("node %d: %v", TSIDNodes, err)
	}
}

func TestTSIDsSayWhenTheClockIsBeyondThem(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Date(2019, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if id, err := tsidsAt(t, -1, func() time.Time { return at }).Next(); err == nil {
			t.Errorf("%v has the id %q", at, id)
		}
	}
}

func TestTSIDsAreUniqueAndAscendingInEachGoroutine(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 5000
	ids := tsidsAt(t, -1, nil)
	got := make([][]string, goroutines)
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for range each {
				id, err := ids.Next()
				if err != nil {
					t.Error(err)
					return
				}
				got[g] = append(got[g], id)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(got...)
	for g, list := range got {
		if !slices.IsSorted(list) {
			t.Errorf("goroutine %d: ids are not ascending", g)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != goroutines*each {
		t.Errorf("%d distinct ids, want %d", n, goroutines*each)
	}
}
