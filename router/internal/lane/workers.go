package lane

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

const (
	// StallPatience is how long a lane of which no chain ends keeps to its limit: its chains may wait for a slow receiver, or behind a
	// message that hangs, and others must get past them. After that the limit doubles, repeatedly; the window is the bound.
	StallPatience = 50 * time.Millisecond

	// mostDoubled is more than any window needs.
	mostDoubled = 20
)

// runner has the chains of a session run. The session's mutex guards it.
type runner struct {
	mu    *sync.Mutex // the session's
	route *Route
	run   func(*Item) // runs a chain and concludes it

	idle     *sync.Cond // chains == 0
	chains   int        // that run; when delivering first: messages on their way to the end of theirs
	stopping bool
	queue    []*Item // whose chains are to run; when delivering first: that are to be offered
	offer    func()  // when delivering first: begins a goroutine that offers messages until none is queued
	offering bool    // it runs

	watched bool // a timer checks whether chains end
	moved   bool // one has, since that began
	doubled int  // how often the limit is doubled

	cut     bool // a stop waits no longer: deliveries are cancelled
	unknown int  // chains that ended after that without showing whether their message arrived
}

func newRunner(s *Session) runner {
	run := func(it *Item) { s.conclude([]handlers.Ended{{Ticket: &it.Ticket, Err: s.Lane.run(it)}}, true) }
	return runner{mu: &s.mu, route: s.Route, run: run, idle: sync.NewCond(&s.mu), offer: func() { s.wg.Go(s.offerMessages) }}
}

// pushLocked queues an item. Call proceedLocked after the last one.
func (r *runner) pushLocked(it *Item) { r.queue = append(r.queue, it) }

// takeAll takes what is queued and counts it as in flight. nil: nothing is queued, and the goroutine that offers messages ends.
func (r *runner) takeAll() []*Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.offering = false
		return nil
	}
	out := r.queue[:0] // it is ours from here on
	for _, it := range r.queue {
		if it.phase == running {
			r.beginLocked()
			out = append(out, it)
		}
	}
	r.queue = nil
	return out
}

// stopLocked has no chain begin any more.
func (r *runner) stopLocked() { r.stopping, r.queue = true, nil }

// await returns when all chains have ended or ctx has.
func (r *runner) await(ctx context.Context) {
	wake := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.idle.Broadcast()
	})
	defer wake()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.chains > 0 && ctx.Err() == nil {
		r.idle.Wait()
	}
}

// limit is how many chains a lane that moves may have now.
func (r *runner) limit() int {
	return max(TotalChains/max(int(r.route.shared.Busy.Load()), 1), r.route.leastChains)
}

// pickLocked takes the next item of which the chain may run now, and counts it.
func (r *runner) pickLocked() *Item {
	for len(r.queue) > 0 && r.chains < r.limit()<<r.doubled {
		it := r.queue[0]
		r.queue[0], r.queue = nil, r.queue[1:] // append allocates when it needs room, without what has run
		if it.phase == running {
			r.beginLocked()
			return it
		}
	}
	return nil
}

// beginLocked counts a chain that is about to run.
func (r *runner) beginLocked() {
	if r.chains == 0 && !r.route.DeliverFirst {
		r.route.shared.Busy.Add(1)
	}
	r.chains++
}

// endLocked counts a chain that has ended.
func (r *runner) endLocked() {
	r.chains--
	r.moved = true
	if r.chains > 0 {
		return
	}
	if !r.route.DeliverFirst {
		r.route.shared.Busy.Add(-1)
	}
	r.idle.Broadcast()
}

// proceedLocked has queued chains run, as many as the limit allows. A goroutine runs one chain, and then has those run for which the lane
// has room.
func (r *runner) proceedLocked() {
	if r.route.DeliverFirst {
		if len(r.queue) > 0 && !r.offering && !r.stopping {
			r.offering = true
			r.offer()
		}
		return
	}
	if r.chains <= r.limit()/2 {
		r.doubled = 0
	}
	for it := r.pickLocked(); it != nil; it = r.pickLocked() {
		go func() {
			r.run(it)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.proceedLocked()
		}()
	}
	if len(r.queue) > 0 && !r.watched {
		r.watched, r.moved = true, false
		time.AfterFunc(StallPatience, r.watch)
	}
}

// watch doubles the limit of a lane of which no chain has ended since the timer was set.
func (r *runner) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = false
	if len(r.queue) > 0 && !r.moved {
		r.doubled = min(r.doubled+1, mostDoubled)
	}
	r.proceedLocked()
}

// CutMoment is how long chains whose deliveries were cancelled may take to end: some of the messages have arrived.
const CutMoment = 100 * time.Millisecond

// endedAs counts a chain that ends after the cut without showing that its message arrived: a cancelled delivery may have.
func (r *runner) endedAs(o outbox.Outcome) {
	if r.cut && o != outbox.OutcomeDelivered && o != outbox.OutcomeSkipped {
		r.unknown++
	}
}

// Unknown is of how many messages of a route stopped sessions do not know whether they arrived.
type Unknown struct {
	Route    string
	Lanes    []string
	Messages int
}

// UnknownBy adds up by route what stopped sessions do not know, routes and lanes in the order of their names. It counts chains that have not
// ended: their results are not settled any more.
func UnknownBy(sessions []*Session) (out []Unknown) {
	sessions = slices.SortedFunc(slices.Values(sessions), func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.Route.Name, b.Route.Name), cmp.Compare(a.Lane.Name, b.Lane.Name))
	})
	for _, s := range sessions {
		s.mu.Lock()
		cut, unknown := s.runner.cut, s.runner.unknown+s.runner.chains
		s.mu.Unlock()
		if !cut || unknown == 0 {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Route != s.Route.Name {
			out = append(out, Unknown{Route: s.Route.Name})
		}
		last := &out[len(out)-1]
		last.Lanes = append(last.Lanes, s.Lane.Name)
		last.Messages += unknown
	}
	return out
}
