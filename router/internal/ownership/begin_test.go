package ownership

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// forgetful is a source whose server has forgotten transactions that the snapshot "ahead" speaks of.
type forgetful struct{ adapters.Source }

func (forgetful) Fit(_ context.Context, cursors []*adapters.Cursor) error {
	for _, c := range cursors {
		if c.Snapshot == "ahead" {
			c.Snapshot = "shorter"
		}
	}
	return nil
}

// Positions that were settled beyond a cursor may be given out again by a server that lost the last transactions: rows there must not be
// skipped. They may come twice.
func TestG1_PositionsBeyondACursorAreForgottenWithTheirTransactions(t *testing.T) {
	t.Parallel()
	r := &Route{Route: &lane.Route{PutBack: new([adapters.Slots]atomic.Bool)}, RouteConfig: RouteConfig{Source: forgetful{}}}
	r.PutBack[2].Store(true)
	states := []adapters.LaneState{
		{LaneRef: adapters.LaneRef{Slot: 0}, Cursor: adapters.Cursor{Snapshot: "good"}, Beyond: []int64{5}},
		{LaneRef: adapters.LaneRef{Slot: 1}, Cursor: adapters.Cursor{Snapshot: "ahead"}, Beyond: []int64{5}},
		{LaneRef: adapters.LaneRef{Slot: 2}, Cursor: adapters.Cursor{Snapshot: "good"}, Beyond: []int64{5}},
	}
	if err := r.fit(t.Context(), states); err != nil {
		t.Fatal(err)
	}
	for slot, want := range []struct {
		beyond int
		placed bool
		cursor string
	}{{1, false, "good"}, {0, true, "shorter"}, {0, false, "good"}} {
		if st := states[slot]; len(st.Beyond) != want.beyond || st.Placed != want.placed || st.Cursor.Snapshot != want.cursor {
			t.Errorf("slot %d: beyond %v, placed %v, snapshot %s; want %+v", slot, st.Beyond, st.Placed, st.Cursor.Snapshot, want)
		}
	}
	if r.PutBack[2].Load() {
		t.Error("the mark of slot 2 is left")
	}
}
