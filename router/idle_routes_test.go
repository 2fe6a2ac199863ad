package router

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
)

// An idle lane has no goroutine: a thousand routes have 16,000 lanes.
func TestIdleLanesHaveNoGoroutines(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	for _, deliverFirst := range []bool{false, true} {
		one, many := goroutinesOf(t, 1, deliverFirst), goroutinesOf(t, 20, deliverFirst)
		if many > one+20 { // others that end at the same time
			t.Errorf("deliverFirst %v: %d goroutines with 20 routes, %d with one", deliverFirst, many, one)
		}
	}
}

// goroutinesOf is how many goroutines there are after routes have delivered something.
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
		n = runtime.NumGoroutine()
		r.stop()
	})
	return n
}
