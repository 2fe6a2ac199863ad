package api

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// Pages of lanes have each lane once, also of routes whose names begin alike.
func TestPagesOfLanes(t *testing.T) {
	t.Parallel()
	lanes := []adapters.LaneStatus{}
	for _, route := range []string{"a", "a-b", "a.b", "ab"} {
		for slot := range 16 {
			lanes = append(lanes, adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: route, Slot: slot}})
		}
	}
	refs := func(lanes []adapters.LaneStatus) (out []adapters.LaneRef) {
		for i := range lanes {
			out = append(out, lanes[i].LaneRef)
		}
		return out
	}
	before := refs(lanes)
	for _, limit := range []int{1, 7, 16, 100} {
		got, next := []adapters.LaneStatus{}, ""
		for {
			page := cutLanes(lanes, Page{After: next, Limit: limit})
			got = append(got, page.Body.Items...)
			if next = page.Body.Next; next == "" {
				break
			}
		}
		if !slices.Equal(refs(got), before) {
			t.Errorf("%d a page: %v", limit, refs(got))
		}
	}
	if !slices.Equal(refs(lanes), before) { // others have them, too
		t.Error("the lanes were changed")
	}
	for _, after := range []string{"", "/", "a", "zz"} { // somebody may write what is no key
		cutLanes(lanes, Page{After: after, Limit: 10})
	}
}
