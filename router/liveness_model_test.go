package router

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// skip is an operator who skips a message that is parked and not dead, if there is
// one, or all of its group, while fresh ones of its group come.
func (r *run) skip() {
	rows, _ := r.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	rows = slices.DeleteFunc(rows, func(p adapters.Parked) bool { return p.Status == adapters.ParkedDead })
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b adapters.Parked) int { return cmp.Compare(a.ID, b.ID) })
	p := rows[r.random.IntN(len(rows))]
	// When its next attempt is under way, or the group is being read.
	if wait := time.Until(p.NextAttemptAt); wait > 0 && wait < time.Minute && r.random.IntN(2) == 0 {
		time.Sleep(wait + time.Duration(r.random.IntN(300))*time.Millisecond)
	}
	group := p.Metadata[outbox.MetaGroup]
	all := r.random.IntN(2) == 0
	for _, x := range rows {
		if x.ID == p.ID || all && group != "" && x.Metadata[outbox.MetaGroup] == group {
			r.skipOne(x.ID)
		}
	}
	for range 4 {
		time.Sleep(time.Duration(r.random.IntN(400)) * time.Millisecond)
		r.writeTo(group)
	}
	r.hearOf()
}

func (r *run) skipOne(id string) {
	step, err := r.state.ChangeParked(context.Background(),
		adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{ID: id}})
	r.commanded = time.Now()
	if err == nil && step.Changed == 1 {
		r.world.mu.Lock()
		r.world.skipped[id] = time.Now()
		r.world.mu.Unlock()
	}
}

// known is after what time an operator's command has been carried out for good: the
// heartbeat, and a state store that is down for a while or slow.
const known = DefaultLease/4 + 10*time.Second

// checkSkipped complains of an attempt of a message that an operator has skipped
// long ago. Call with the mutex held.
func (w *world) checkSkipped(id string) {
	if at, skipped := w.skipped[id]; skipped && time.Since(at) > known {
		w.complain("%s is attempted %v after it was skipped", id, time.Since(at))
	}
}

// observe looks, at moments at which nobody has anything to do, for what is
// referred to although it is settled, and for what is parked and forgotten. What a
// timer or a goroutine that sleeps has still at hand is gone a little later.
func (r *run) observe() {
	room, alive := 0, 1
	for try := 0; alive > room && try < 3; try++ {
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
	if alive > room {
		r.world.mu.Lock()
		r.world.complain("%d messages are referred to, of which at most %d are under way", alive, room)
		r.world.mu.Unlock()
	}
}

// room is how many messages there may be in memory. It looks at what is parked, too.
func (r *run) room() (n int) {
	for _, l := range r.router.routes.All()[0].Lanes {
		s := l.Session()
		if s == nil {
			continue
		}
		in := lane.Inspect(s)
		n += in.Unsettled
		if time.Since(r.commanded) > known && !in.Stopping {
			r.parking.check(l, &in)
		}
	}
	return n
}

// parkingWatch looks for parked messages that are forgotten.
type parkingWatch struct {
	state    *memState
	complain func(format string, args ...any)
	known    time.Duration // for so long one may wait to be brought back
	overdue  map[overdueKey]time.Time
}

// check complains of parked messages that the session does not know of, and of those
// that it should have brought back.
func (w *parkingWatch) check(l *lane.Lane, in *lane.Inspection) {
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	for _, ref := range l.Rows() {
		for _, p := range w.state.queue(ref) {
			if !in.Knows(p) {
				w.complain("%s is parked (%s), and its lane knows nothing of it", p.ID, p.Status)
			}
		}
	}
	// A small window has room for one at a time: some come back, then all are waited for.
	busy := in.Live > 0
	for _, g := range in.Groups {
		busy = busy || g.Loading
	}
	for _, g := range in.Groups {
		k := overdueKey{l.Index, g.Group, g.Seq, g.Since}
		switch since, waits := w.overdue[k]; {
		case !g.Movable || busy || g.Due.After(time.Now()):
			delete(w.overdue, k)
		case !waits:
			w.overdue[k] = time.Now()
		case time.Since(since) > w.known:
			w.complain("group %q could come back since %v", g.Group, time.Since(since))
		}
	}
	for k := range w.overdue { // a group that has left the parking, and joins it again later, waits anew
		there := slices.ContainsFunc(in.Groups, func(g lane.GroupInspection) bool { return k == overdueKey{l.Index, g.Group, g.Seq, g.Since} })
		if k.lane == l.Index && !there {
			delete(w.overdue, k)
		}
	}
}

// overdueKey names a parked group of a lane.
type overdueKey struct {
	lane  int
	group string
	seq   int64
	since time.Time
}

// numberOf is the number of a group that write has made; 0: none.
func numberOf(group string) (n int) {
	for _, c := range strings.TrimPrefix(group, "g") {
		n = 10*n + int(c-'0')
	}
	return n
}
