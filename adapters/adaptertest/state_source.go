package adaptertest

import (
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// testLanesTellWhatTheyRead: retention judges by these whose cursors count.
func testLanesTellWhatTheyRead(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1, 2)
	settled := at(lanes[0], 9)
	settled.Cluster, settled.Source = "c-1", "postgresql/app/public.outbox"
	settled.Cursor = outbox.Cursor{Position: 9, Snapshot: "5:7:5", Window: "8:8:", Paged: 3, Base: 2}
	settle(t, store, settled, at(lanes[1], 1))
	status, err := store.Lanes(t.Context())
	if err != nil || len(status) != 3 {
		t.Fatalf("%d lanes, %v", len(status), err)
	}
	if got := status[0]; got.Cluster != settled.Cluster || got.Source != settled.Source || got.Cursor != settled.Cursor {
		t.Errorf("got %+v", got)
	}
	if status[1].Source != "" || status[1].UpdatedAt.IsZero() {
		t.Errorf("a lane whose source is not known: %+v", status[1])
	}
	if !status[2].UpdatedAt.IsZero() {
		t.Errorf("a lane that was never settled: %+v", status[2])
	}
	settled.Source = "postgresql/app/public.other"
	settle(t, store, settled)
	if status, err = store.Lanes(t.Context()); err != nil || status[0].Source != settled.Source {
		t.Errorf("after a settle from elsewhere: %+v, %v", status, err)
	}
}
