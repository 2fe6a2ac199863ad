package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// SortSettlements returns the settlements by route and slot, so that every
// writer locks the rows in the same order. Two for one lane are an error:
// which of them holds would be chance.
func SortSettlements(settlements []adapters.Settlement) ([]adapters.Settlement, error) {
	sorted := slices.Clone(settlements)
	slices.SortFunc(sorted, func(a, b adapters.Settlement) int { return CompareLanes(a.LaneRef, b.LaneRef) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].LaneRef == sorted[i-1].LaneRef {
			return nil, fmt.Errorf("settle: lane %s/%02d is settled twice in one call", sorted[i].Route, sorted[i].Slot)
		}
	}
	return sorted, nil
}

// CompareLanes orders lanes by route and slot.
func CompareLanes(a, b adapters.LaneRef) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Slot, b.Slot))
}
