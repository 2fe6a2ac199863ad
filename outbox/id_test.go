package outbox

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

func TestIDsGrowWhileTheClockStandsOrGoesBack(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := start
	s := newIDSource(func() time.Time { return clock })
	last := ""
	for i, step := range []time.Duration{0, 0, time.Second, -time.Hour, 0, 2 * time.Second, -2 * time.Second} {
		clock = clock.Add(step)
		id, err := s.next()
		if err != nil || id <= last {
			t.Fatalf("step %d: %q (%v) after %q", i, id, err, last)
		}
		last = id
	}
	if at := ulid.Time(ulid.MustParse(last).Time()); !at.Equal(start.Add(time.Second)) {
		t.Errorf("the last id says %v, want the latest time that the clock showed", at)
	}
}

// highest is randomness that leaves a millisecond no room for a second id.
type highest struct{}

func (highest) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

// Int63n makes the library's increments come from here as well.
func (highest) Int63n(n int64) int64 { return n - 1 }

func TestIDsMoveOnWhenAMillisecondIsUsedUp(t *testing.T) {
	t.Parallel()
	s := newIDSource(func() time.Time { return time.UnixMilli(1000) })
	s.entropy = ulid.Monotonic(highest{}, 0)
	var got []uint64
	for range 3 {
		id, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ulid.MustParse(id).Time())
	}
	if !slices.Equal(got, []uint64{1000, 1001, 1002}) {
		t.Errorf("milliseconds %v, want 1000 to 1002", got)
	}
}

func TestIDsSayWhenTheClockIsBeyondThem(t *testing.T) {
	t.Parallel()
	s := newIDSource(func() time.Time { return time.UnixMilli(1 << 49) })
	if id, err := s.next(); err == nil {
		t.Errorf("got %q for a time that no ULID can hold", id)
	}
}

func TestIDsAreUniqueAndAscendingInEachGoroutine(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 2000
	got := make([][]string, goroutines)
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for range each {
				e, err := New("a").Bytes(nil).Build()
				if err != nil {
					t.Error(err)
					return
				}
				got[g] = append(got[g], e.ID())
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for g, list := range got {
		if !slices.IsSorted(list) {
			t.Errorf("goroutine %d: ids are not ascending", g)
		}
		for _, id := range list {
			seen[id] = true
		}
	}
	if len(seen) != goroutines*each {
		t.Errorf("%d distinct ids, want %d", len(seen), goroutines*each)
	}
}
