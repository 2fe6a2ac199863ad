package router

import (
	"maps"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// observe looks, at a moment at which nobody has anything to do, for what is
// referred to although it is settled: payloads, and what the ledger keeps.
func (r *queueRun) observe() {
	room, alive := 0, 1
	for try := 0; alive > room && try < 8; try++ {
		if try > 0 {
			time.Sleep(2 * lane.ShortDelay)
		}
		synctest.Wait()
		if time.Since(r.begun) < 2*lane.ShortDelay { // what ended before may be on a timer
			return
		}
		room = r.room()
		alive = r.lent.alive()
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if alive > room && !r.evicted() {
		r.world.complain("%d messages are referred to, of which at most %d are claimed", alive, room)
	}
	r.checkLedger()
}

// room is how many messages there may be in memory.
func (r *queueRun) room() (n int) {
	rt := r.router.routes[0]
	if n = rt.claimer.ledger.size(); !rt.Hindsight {
		for _, s := range rt.sessions() { // chains of what was taken out of the lane
			s.mu.Lock()
			n += s.chains
			s.mu.Unlock()
		}
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return n + r.queue.bringing
}

// checkLedger complains of what the ledger knows of rows that it does not hold. Call
// with the mutexes of the table and of the world held.
func (r *queueRun) checkLedger() {
	l := r.router.claimers[0].ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	groups, returning := map[string]int{}, 0
	for _, h := range l.held {
		if h.group != "" {
			groups[h.group]++
		}
		if h.state != rowOpen && h.returns() {
			returning++
		}
	}
	if !maps.Equal(groups, l.groups) {
		r.world.complain("the ledger counts %v by group, and holds %v", l.groups, groups)
	}
	for _, v := range l.left {
		returning -= v.returning
	}
	if returning != 0 || len(l.ready) > len(l.held) {
		r.world.complain("%d results are to be written of %d rows, those that return are off by %d", len(l.ready), len(l.held), returning)
	}
	if len(l.credits) > maxCredits { // some may be of rows that others have ended
		r.world.complain("attempts of %d rows are kept", len(l.credits))
	}
}
