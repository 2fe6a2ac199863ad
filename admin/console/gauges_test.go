package console

import (
	"maps"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// A lane has no owner if it has none or one that is not alive; of routes that are paused, or that wait for a leader, none has to have one.
func TestLanesWithoutAnOwner(t *testing.T) {
	t.Parallel()
	s := &Snapshot{
		Routes: []status.RouteStatus{{Route: "free"}, {Route: "paused", Paused: &status.Stop{}}, {Route: "standby"}, {Route: "gone"}},
		Instances: []status.Member{
			{ID: "a", Alive: true, Waits: []status.Waits{{Route: "standby", Why: "no lead"}}},
			{ID: "b", Waits: []status.Waits{{Route: "gone", Why: "no lead"}}},
		},
	}
	for _, route := range []string{"free", "paused", "standby", "gone"} {
		for slot, owner := range []string{"", "dead", "alive"} {
			s.Lanes = append(s.Lanes, adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: route, Slot: slot}, Owner: owner, Alive: owner == "alive"})
		}
	}
	if got := ownerless(s); !maps.Equal(got, map[string]int{"free": 2, "gone": 2}) {
		t.Errorf("got %v", got)
	}
}
