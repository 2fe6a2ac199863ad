package router

import (
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// observe looks, at a moment at which nobody has anything to do, for what is
// referred to although it is settled: payloads, and what the ledger keeps.
func (r *queueRun) observe() {
	var problems []string
	room, alive := 0, 1
	for try := 0; alive > room && try < 8; try++ {
		if try > 0 {
			time.Sleep(2 * lane.ShortDelay)
		}
		synctest.Wait()
		if time.Since(r.begun) < 2*lane.ShortDelay { // what ended before may be on a timer
			return
		}
		room, problems = r.room()
		alive = r.lent.alive()
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if alive > room {
		r.world.complain("%d messages are referred to, of which at most %d are claimed", alive, room)
	}
	for _, problem := range problems {
		r.world.complain("%s", problem)
	}
}

// room is how many messages there may be in memory, and what does not add up in the
// claimer's accounts.
func (r *queueRun) room() (n int, problems []string) {
	rt := r.router.routes.All()[0]
	if n, problems = rt.claimer.Inspect(); !rt.DeliverFirst {
		for _, s := range rt.Sessions() { // chains of what was taken out of the lane
			n += lane.Inspect(s).Chains
		}
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return n + r.queue.bringing, problems
}
