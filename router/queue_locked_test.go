package router

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// A session has locked a row and does not let go. Everything else is delivered and written, and lanes that have nothing to do with the row move to
// another instance at once; its own lane does when its result is written.
func TestG3_G13_OneLockedRowStopsNothing(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		const groups, each = 20, 10
		at := 0
		for adapters.SlotOf(fmt.Sprintf("g%d", at), "") < adapters.Slots/2 { // of those that are handed over
			at++
		}
		row := fmt.Sprintf("g%d-4", at)
		var free atomic.Bool
		r.table.locked = func(id string) bool { return id == row && !free.Load() }
		r.fill(groups, each)
		a := r.joins("a", nil)
		r.await(groups * each)
		time.Sleep(5 * time.Second)
		r.wantStatuses(map[string]int{"done": groups*each - 1, "processing": 1})
		b := r.joins("b", nil)
		b.until("the other lanes move", func() bool { return r.state.lanesOf("b")["orders"] == adapters.Slots/2-1 })
		time.Sleep(10 * time.Second)
		if n := r.state.lanesOf("b")["orders"]; n != adapters.Slots/2-1 {
			t.Errorf("b has %d lanes while a result of one of them is not written", n)
		}
		free.Store(true)
		r.spreadWithin(4*time.Second, []string{"a", "b"}, adapters.Slots/2, adapters.Slots/2)
		a.stop()
		b.stop()
		r.checkOrdered(groups, each)
		checkEachOnce(t, groups, each, r.dest)
		r.wantStatuses(map[string]int{"done": groups * each})
	})
}
