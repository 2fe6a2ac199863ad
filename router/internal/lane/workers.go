package lane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// concurrency bounds the messages that are in their chains at once. More than enough
// for large batches makes everything slower: what a message needs (its stack
// above all) has left the processor's caches whenever somebody turns to it again.
// With two processors, the same work took 60% more of them with 4,096 at once than
// with 1,024, and a fifth more with 2,048; with less, batches for Kafka become so small
// that what we save the broker spends.
type concurrency struct {
	Lanes atomic.Int32 // that have chains
}

const (
	// TotalChains is how many chains there are beside each other in a process
	// whose lanes all move.
	TotalChains = 1024

	// LeastChains is what a lane may have, however many there are; beside what fills
	// one batch, where a batch is of one group and so of one lane.
	LeastChains = 64

	// StallPatience is how long a lane of which no chain ends keeps to its share:
	// they may be waiting for a slow receiver, or behind a message that hangs,
	// and others must get past them. After that its share doubles, again and
	// again, until few are left; the window is the bound.
	StallPatience = 50 * time.Millisecond

	// idlePatience is how long a worker without work is kept.
	idlePatience = time.Second

	// mostDoubled is more than any window needs.
	mostDoubled = 20
)

// leastChains is what each lane of a route may have.
func leastChains(o adapters.Ordering) int {
	if o.Unit == adapters.UnitGroup && o.MaxMessages > 1 {
		return min(o.MaxMessages, TotalChains) + LeastChains
	}
	return LeastChains
}

// runner has the chains of a session run: it knows what is queued, how many chains run
// at once, and the workers that run them. It calls nothing of the session: workers ask
// it for items. All but the channels is guarded by the session's mutex.
type runner struct {
	mu   *sync.Mutex // the session's
	lane *Lane
	done <-chan struct{} // closed when the session stops
	call context.Context // of calls for workers; leads to the session

	idle        *sync.Cond // chains == 0
	chains      int        // that run; when delivering first: messages on their way to the end of theirs
	workers     int        // that run chains, are idle, or have been called
	idleWorkers []worker   // those that have no chain, by the time since when
	spare       int        // of them: not needed since the scheduler looked
	stopping    bool

	queue   []*Item       // whose chains are to run; when delivering first: that are to be offered
	atLimit bool          // the scheduler waits for chains to end
	moved   bool          // one has ended since the scheduler looked
	doubled int           // how often its share is doubled
	called  chan struct{} // wakes the scheduler, or who offers messages
}

func newRunner(s *Session) runner {
	return runner{mu: &s.mu, lane: s.lane, done: s.ctx.Done(), call: context.WithValue(context.Background(), callKey, s),
		idle: sync.NewCond(&s.mu), called: make(chan struct{}, 1)}
}

// pushLocked queues an item. Call proceedLocked after the last one.
func (r *runner) pushLocked(it *Item) { r.queue = append(r.queue, it) }

// takeAll takes what is queued and counts it as in flight.
func (r *runner) takeAll() []*Item {
	r.mu.Lock()
	defer r.mu.Unlock()
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
func (r *runner) stopLocked() {
	r.stopping = true
	r.queue = nil
	r.dismissWorkersLocked(len(r.idleWorkers))
}

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

// limit is what a lane that moves may have now.
func (r *runner) limit() int {
	return max(TotalChains/max(int(r.lane.route.shared.Concurrency.Lanes.Load()), 1), r.lane.route.leastChains)
}

// chainLimitLocked is how many chains the lane may have now.
func (r *runner) chainLimitLocked() int { return r.limit() << r.doubled }

// worker is a goroutine of Watermill's that runs chains of a session.
type worker chan *Item

// next returns the item whose chain the worker runs now. It waits for one; nil:
// there is nothing left for this worker.
func (r *runner) next(w worker) *Item {
	r.mu.Lock()
	it := r.pickLocked()
	if it == nil && !r.stopping {
		r.callSchedulerLocked()
		r.idleWorkers = append(r.idleWorkers, w)
		r.mu.Unlock()
		return <-w
	}
	if it == nil {
		r.workers--
	}
	r.mu.Unlock()
	return it
}

// pickLocked takes the next item of which the chain may run now, and counts it.
func (r *runner) pickLocked() *Item {
	for len(r.queue) > 0 && r.chains < r.chainLimitLocked() {
		it := r.queue[0]
		r.queue[0], r.queue = nil, r.queue[1:] // append makes room anew, and leaves what has run behind
		if it.phase == running {
			r.beginLocked()
			return it
		}
	}
	return nil
}

// dismissWorkersLocked ends the n workers that have rested for longest.
func (r *runner) dismissWorkersLocked(n int) {
	for _, w := range r.idleWorkers[:n] {
		w <- nil
	}
	r.idleWorkers = slices.Delete(r.idleWorkers, 0, n)
	r.workers -= n
	r.spare = len(r.idleWorkers)
}

// beginLocked counts a chain that is about to run.
func (r *runner) beginLocked() {
	if r.chains == 0 && !r.lane.route.DeliverFirst {
		r.lane.route.shared.Concurrency.Lanes.Add(1)
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
	if !r.lane.route.DeliverFirst {
		r.lane.route.shared.Concurrency.Lanes.Add(-1)
	}
	r.idle.Broadcast()
}

// missingWorkersLocked is how many more workers have something to do now: one that has no chain
// and does not rest is on its way.
func (r *runner) missingWorkersLocked() int {
	coming := r.workers - r.chains - len(r.idleWorkers)
	return min(r.chainLimitLocked()-r.chains, len(r.queue)) - coming
}

// proceedLocked sets on its way what is queued.
func (r *runner) proceedLocked() {
	switch {
	case !r.lane.route.DeliverFirst:
		r.callWorkersLocked()
	case len(r.queue) > 0:
		signal.Send(r.called)
	}
}

// callWorkersLocked gives what is queued to workers that rest, those that came last
// first (their stacks are in the caches). If these are too few, the scheduler calls
// more.
func (r *runner) callWorkersLocked() {
	for n, w := range slices.Backward(r.idleWorkers) {
		it := r.pickLocked()
		if it == nil {
			break
		}
		w <- it
		r.idleWorkers = r.idleWorkers[:n]
	}
	r.spare = min(r.spare, len(r.idleWorkers))
	r.callSchedulerLocked()
}

// callSchedulerLocked wakes the scheduler if workers are lacking, or if something has to
// wait for chains to end and nobody watches yet whether they do.
func (r *runner) callSchedulerLocked() {
	if r.missingWorkersLocked() > 0 || r.waitingLocked() && !r.atLimit {
		signal.Send(r.called)
	}
}

// waitingLocked reports whether more is queued than may run.
func (r *runner) waitingLocked() bool { return len(r.queue) > r.chainLimitLocked()-r.chains }

// scheduleWorkers calls workers, which to Watermill are messages, as there is work.
func (r *runner) scheduleWorkers() {
	for waited := false; ; {
		for range r.addWorkers(waited) {
			call := message.NewMessage("worker", nil)
			call.SetContext(r.call)
			select {
			case r.lane.out <- call:
			case <-r.done:
				return
			}
		}
		var ok bool
		if waited, ok = r.waitForWork(); !ok {
			return
		}
	}
}

// addWorkers counts the workers that the lane lacks as its own. The share of a lane
// that has not moved while it waited is doubled, for as long as what stands still
// fills it; workers for which there was no use in all that time are dismissed.
func (r *runner) addWorkers(waited bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited && r.atLimit && !r.moved {
		r.doubled = min(r.doubled+1, mostDoubled)
	} else if r.chains <= r.limit()/2 {
		r.doubled = 0
	}
	r.moved = false
	if waited && !r.atLimit {
		r.dismissWorkersLocked(r.spare)
	}
	r.callWorkersLocked()
	r.atLimit = r.waitingLocked()
	n := max(r.missingWorkersLocked(), 0)
	r.workers += n
	return n
}

// waitForWork returns when workers may be lacking, or too many; waited, when a
// time has passed in which none were.
func (r *runner) waitForWork() (waited, ok bool) {
	var timeout <-chan struct{}
	if d := r.patience(); d > 0 {
		timer := signal.After(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-r.called:
		return false, true
	case <-timeout:
		return true, true
	case <-r.done:
		return false, false
	}
}

// patience is how long the scheduler waits; 0: until it is called.
func (r *runner) patience() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.atLimit:
		return StallPatience
	case len(r.idleWorkers) > 0:
		return idlePatience
	}
	return 0
}

type callKeyType struct{}

// callKey leads from the context of a call to the session that needs workers.
var callKey any = callKeyType{}
