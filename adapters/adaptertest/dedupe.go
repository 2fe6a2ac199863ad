package adaptertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// DedupeStore checks that a store keeps the contract of [adapters.DedupeStore].
// The function makes an empty database, gone when the test ends, and returns a
// function that opens another store on it, ready for use. The tests are subtests
// of t and run in parallel.
func DedupeStore(t *testing.T, create func(tb testing.TB) (open func() adapters.DedupeStore)) {
	for name, test := range map[string]func(*testing.T, func() adapters.DedupeStore){
		"SeenOnItsRoute":    testSeenOnItsRoute,
		"RecordTwins":       testRecordTwins,
		"IDsOfAnyBytes":     testIDsOfAnyBytes,
		"ExpireInSteps":     testExpireInSteps,
		"RecordWhileRecord": testRecordWhileRecord,
		"Many":              testManySightings,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

// sightings are ids of route "r", kept for so long.
func sightings(keep time.Duration, ids ...string) []adapters.SeenEvent {
	out := make([]adapters.SeenEvent, len(ids))
	for i, id := range ids {
		out[i] = adapters.SeenEvent{EventRef: adapters.EventRef{Route: "r", ID: id}, Keep: keep}
	}
	return out
}

func record(tb testing.TB, store adapters.DedupeStore, events []adapters.SeenEvent) {
	tb.Helper()
	if err := store.Record(tb.Context(), events); err != nil {
		tb.Fatalf("record %d events: %v", len(events), err)
	}
}

// wantSeen asks for the ids of route "r" in one call.
func wantSeen(tb testing.TB, store adapters.DedupeStore, want []bool, ids ...string) {
	tb.Helper()
	events := make([]adapters.EventRef, len(ids))
	for i, id := range ids {
		events[i] = adapters.EventRef{Route: "r", ID: id}
	}
	got, err := store.Seen(tb.Context(), events)
	if err != nil || !slices.Equal(got, want) {
		tb.Fatalf("seen of %d ids: %v, %v, want %v", len(ids), got, err, want)
	}
}

func testSeenOnItsRoute(t *testing.T, open func() adapters.DedupeStore) {
	store := open()
	wantSeen(t, store, nil)
	record(t, store, nil)
	wantSeen(t, store, []bool{false}, "a")
	record(t, store, sightings(time.Hour, "c", "a"))
	record(t, store, []adapters.SeenEvent{{EventRef: adapters.EventRef{Route: "other", ID: "b"}, Keep: time.Hour}})
	wantSeen(t, store, []bool{true, false, true, true, false}, "a", "b", "c", "a", "")
	got, err := store.Seen(t.Context(), []adapters.EventRef{{Route: "other", ID: "a"}, {Route: "other", ID: "b"}})
	if err != nil || !slices.Equal(got, []bool{false, true}) {
		t.Fatalf("on the other route: %v, %v", got, err)
	}
}

func testRecordTwins(t *testing.T, open func() adapters.DedupeStore) {
	store := open()
	record(t, store, append(sightings(time.Hour, "a", "a", "a"), sightings(time.Nanosecond, "b", "b")...))
	record(t, store, sightings(time.Hour, "c"))
	record(t, store, sightings(time.Hour, "c"))
	wantSeen(t, store, []bool{true, true}, "a", "c")
	eventually(t, "b expires", func(ctx context.Context) bool {
		got, err := store.Seen(ctx, []adapters.EventRef{{Route: "r", ID: "b"}})
		return err == nil && !got[0]
	})
	record(t, store, sightings(time.Hour, "b")) // again
	wantSeen(t, store, []bool{true}, "b")
}

func testIDsOfAnyBytes(t *testing.T, open func() adapters.DedupeStore) {
	store := open()
	long := strings.Repeat("x", 100_000)
	ids := []string{"", "a\x00b", "\xff\xfe", `"quoted", \ {}`, "ü", long, "base64:YQ=="}
	record(t, store, sightings(time.Hour, ids...))
	wantSeen(t, store, []bool{true, true, true, true, true, true, true}, ids...)
	wantSeen(t, store, []bool{false, false, false, false}, "a", "\xff", long+"y", long[1:])
}

func testExpireInSteps(t *testing.T, open func() adapters.DedupeStore) {
	store := open()
	for i := range 50 {
		record(t, store, sightings(time.Nanosecond, fmt.Sprintf("old%d", i)))
	}
	record(t, store, sightings(time.Hour, "new"))
	deleted := 0
	eventually(t, "expired events are deleted", func(ctx context.Context) bool {
		n, err := store.Expire(ctx, 20)
		if err != nil || n > 20 {
			t.Fatalf("expire deleted %d, %v", n, err)
		}
		deleted += n
		return n == 0
	})
	// A store may delete more on its own, never anything that is alive.
	if deleted > 50 {
		t.Fatalf("%d deleted", deleted)
	}
	wantSeen(t, store, []bool{true, false, false}, "new", "old0", "old49")
}

// Instances that record the same events at the same time neither fail nor wait
// for each other forever.
func testRecordWhileRecord(t *testing.T, open func() adapters.DedupeStore) {
	stores := []adapters.DedupeStore{open(), open(), open()}
	var all sync.WaitGroup
	for i, store := range stores {
		all.Go(func() {
			for round := range 20 {
				ids := make([]string, 50)
				for j := range ids {
					ids[j] = fmt.Sprintf("e%d", (round*10+j*(i+1))%100)
				}
				if err := store.Record(t.Context(), sightings(time.Hour, ids...)); err != nil {
					t.Errorf("store %d: %v", i, err)
				}
				if _, err := store.Expire(t.Context(), 10); err != nil {
					t.Errorf("store %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	wantSeen(t, stores[0], []bool{true, true}, "e0", "e98")
}

func testManySightings(t *testing.T, open func() adapters.DedupeStore) {
	store := open()
	var ids []string
	var want []bool
	for i := range 5000 {
		ids, want = append(ids, fmt.Sprintf("e%d", i)), append(want, i%3 != 0)
	}
	var known []string
	for i, id := range ids {
		if want[i] {
			known = append(known, id)
		}
	}
	record(t, store, sightings(time.Hour, known...))
	wantSeen(t, store, want, ids...)
}
