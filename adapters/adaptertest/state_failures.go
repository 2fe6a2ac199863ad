package adaptertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// testFailuresAreGrouped: messages that failed in the same way are one group, in whichever lane; its
// name selects them.
func testFailuresAreGrouped(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(4, 5)
	message := func(seq int64, status adapters.ParkedStatus, text string) adapters.Parked {
		p := parked(seq, fmt.Sprintf("g%d", seq), status)
		p.LastError = text
		return p
	}
	refused := func(n int) string {
		return fmt.Sprintf(`https://a.example/x answered 422: customer %d is "no%d"`, n, n)
	}
	settle(t, store,
		parking(lanes[0], message(1, adapters.ParkedDead, refused(1)), message(2, adapters.ParkedRetrying, refused(2)), message(3, adapters.ParkedDead, "cannot be decoded"),
			message(4, adapters.ParkedWaiting, "")),
		parking(lanes[1], message(1, adapters.ParkedDead, refused(3)), message(2, adapters.ParkedDead, "https://b.example/x answered 422: customer 4 is \"no\"")))
	for _, route := range []string{"", lanes[0].Route} {
		found, more, err := store.CountFailures(t.Context(), route, 10)
		if err != nil || more || len(found) != 3 {
			t.Fatalf("route %q: %+v, more %v, %v", route, found, more, err)
		}
		f := found[0]
		if f.Count != 3 || f.More || f.ByStatus[adapters.ParkedDead] != 2 || f.ByStatus[adapters.ParkedRetrying] != 1 || f.Route != lanes[0].Route || f.Type != "t" ||
			f.Name <= 0 || f.First.IsZero() || f.Last.Before(f.First) {
			t.Errorf("the largest group is %+v", f)
		}
		list := list(t, store, adapters.ParkedFilter{Route: f.Route, Failure: f.Name})
		if got := seqsOf(list); !slices.Equal(got, []int64{1, 2, 1}) {
			t.Errorf("the group's name selects %v", got)
		}
	}
	if found, more, err := store.CountFailures(t.Context(), "", 1); err != nil || !more || len(found) != 1 || found[0].Count != 3 {
		t.Errorf("with one group at most: %+v, more %v, %v", found, more, err)
	}
	if found, _, err := store.CountFailures(t.Context(), "other", 10); err != nil || len(found) != 0 {
		t.Errorf("of a route without failures: %+v, %v", found, err)
	}
	// A message that succeeds at last, or fails in another way, leaves its group.
	change := parking(lanes[0], message(2, adapters.ParkedDead, "cannot be decoded"))
	change.Unpark, change.Stored = []int64{1}, 5
	settle(t, store, change)
	found, _, err := store.CountFailures(t.Context(), "", 10)
	if err != nil || len(found) != 3 || found[0].Count != 2 || found[0].Error != "cannot be decoded" {
		t.Errorf("after changes: %+v, %v", found, err)
	}
}
