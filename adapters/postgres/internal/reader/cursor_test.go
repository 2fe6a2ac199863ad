package reader

import (
	"math"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

func TestLimitsAreClamped(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: 0, 0: 0, 7: 7, math.MaxInt: math.MaxInt32} {
		read := adapters.Read{From: adapters.Cursor{Snapshot: "1:1:"}, Limit: limit}
		p, err := PlanRead(&read)
		if err != nil || p.Limit != want {
			t.Errorf("limit %d became %d, %v; want %d", limit, p.Limit, err, want)
		}
		if got := Finish(&read, &p, &Progress{}, "2:2:"); limit <= 0 && (got.Drained || got.Next != read.From) {
			t.Errorf("limit %d ended at %+v, want where it began", limit, got)
		}
	}
}
