package router

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
)

// An idle lane has no goroutine: a thousand routes have 16,000 lanes.
func TestIdleLanesHaveNoGoroutines(t *testing.T) {
	t.Parallel()
	for _, deliverFirst := range []bool{false, true} {
		one, many := goroutinesOf(t, 1, deliverFirst), goroutinesOf(t, 20, deliverFirst)
		if one < 5 || many != one {
			t.Errorf("deliverFirst %v: %d goroutines with 20 routes, %d with one", deliverFirst, many, one)
		}
	}
}

// goroutinesOf is how many goroutines the router's bubble has after routes have delivered something. It counts stacks:
// runtime.NumGoroutine has those of other tests, and for a moment those that have ended.
func goroutinesOf(t *testing.T, routes int, deliverFirst bool) (n int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, group)
		r.deliverFirst = deliverFirst
		var all []Route
		for i := range routes {
			all = append(all, r.route(func(rt *Route) { rt.Name = fmt.Sprint("orders-", i) }))
		}
		r.start(all...)
		r.fill(2, 5)
		r.await(10 * routes)
		synctest.Wait()
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		// The first stack is this goroutine's: its heading ends with the bubble's number and a bracket.
		heading, _, _ := bytes.Cut(stacks, []byte(":\n"))
		n = bytes.Count(stacks, heading[bytes.LastIndexByte(heading, ' '):])
		r.stop()
	})
	return n
}
