package lane

import (
	"context"
	"slices"
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

// limit is what a lane that moves may have now.
func (s *Session) limit() int {
	return max(TotalChains/max(int(s.route.shared.Concurrency.Lanes.Load()), 1), s.route.leastChains)
}

// chainLimit is how many chains the lane may have now. Call with the mutex held.
func (s *Session) chainLimit() int { return s.limit() << s.doubled }

// worker is a goroutine of Watermill's that runs chains of a session.
type worker chan *Item

// next returns the item whose chain the worker runs now. It waits for one; nil:
// there is nothing left for this worker.
func (s *Session) next(w worker) *Item {
	s.mu.Lock()
	it := s.pick()
	if it == nil && !s.stopping {
		s.callScheduler()
		s.idleWorkers = append(s.idleWorkers, w)
		s.mu.Unlock()
		return <-w
	}
	if it == nil {
		s.workers--
	}
	s.mu.Unlock()
	return it
}

// pick takes the next item of which the chain may run now, and counts it. Call
// with the mutex held.
func (s *Session) pick() *Item {
	for len(s.queue) > 0 && s.chains < s.chainLimit() {
		it := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:] // append makes room anew, and leaves what has run behind
		if it.phase == running {
			s.begin()
			return it
		}
	}
	return nil
}

// dismissWorkers ends the n workers that have rested for longest. Call with the mutex
// held.
func (s *Session) dismissWorkers(n int) {
	for _, w := range s.idleWorkers[:n] {
		w <- nil
	}
	s.idleWorkers = slices.Delete(s.idleWorkers, 0, n)
	s.workers -= n
	s.spare = len(s.idleWorkers)
}

// begin counts a chain that is about to run. Call with the mutex held.
func (s *Session) begin() {
	if s.chains == 0 && !s.route.DeliverFirst {
		s.route.shared.Concurrency.Lanes.Add(1)
	}
	s.chains++
}

// end counts a chain that has ended. Call with the mutex held.
func (s *Session) end() {
	s.chains--
	s.moved = true
	if s.chains > 0 {
		return
	}
	if !s.route.DeliverFirst {
		s.route.shared.Concurrency.Lanes.Add(-1)
	}
	s.idle.Broadcast()
}

// missingWorkers is how many more workers have something to do now: one that has no chain
// and does not rest is on its way. Call with the mutex held.
func (s *Session) missingWorkers() int {
	coming := s.workers - s.chains - len(s.idleWorkers)
	return min(s.chainLimit()-s.chains, len(s.queue)) - coming
}

// proceed sets on its way what is queued. Call with the mutex held.
func (s *Session) proceed() {
	switch {
	case !s.route.DeliverFirst:
		s.callWorkers()
	case len(s.queue) > 0:
		signal.Send(s.called)
	}
}

// callWorkers gives what is queued to workers that rest, those that came last
// first (their stacks are in the caches). If these are too few, the scheduler calls
// more. Call with the mutex held.
func (s *Session) callWorkers() {
	for n, w := range slices.Backward(s.idleWorkers) {
		it := s.pick()
		if it == nil {
			break
		}
		w <- it
		s.idleWorkers = s.idleWorkers[:n]
	}
	s.spare = min(s.spare, len(s.idleWorkers))
	s.callScheduler()
}

// callScheduler wakes the scheduler if workers are lacking, or if something has to
// wait for chains to end and nobody watches yet whether they do. Call with the
// mutex held.
func (s *Session) callScheduler() {
	if s.missingWorkers() > 0 || s.waiting() && !s.atLimit {
		signal.Send(s.called)
	}
}

// waiting reports whether more is queued than may run. Call with the mutex held.
func (s *Session) waiting() bool { return len(s.queue) > s.chainLimit()-s.chains }

// scheduleWorkers calls workers, which to Watermill are messages, as there is work.
func (s *Session) scheduleWorkers() {
	defer s.wg.Done()
	ctx := context.WithValue(context.Background(), callKey, s)
	for waited := false; ; {
		for range s.addWorkers(waited) {
			call := message.NewMessage("worker", nil)
			call.SetContext(ctx)
			select {
			case s.lane.out <- call:
			case <-s.ctx.Done():
				return
			}
		}
		var ok bool
		if waited, ok = s.waitForWork(); !ok {
			return
		}
	}
}

// addWorkers counts the workers that the lane lacks as its own. The share of a lane
// that has not moved while it waited is doubled, for as long as what stands still
// fills it; workers for which there was no use in all that time are dismissed.
func (s *Session) addWorkers(waited bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waited && s.atLimit && !s.moved {
		s.doubled = min(s.doubled+1, mostDoubled)
	} else if s.chains <= s.limit()/2 {
		s.doubled = 0
	}
	s.moved = false
	if waited && !s.atLimit {
		s.dismissWorkers(s.spare)
	}
	s.callWorkers()
	s.atLimit = s.waiting()
	n := max(s.missingWorkers(), 0)
	s.workers += n
	return n
}

// waitForWork returns when workers may be lacking, or too many; waited, when a
// time has passed in which none were.
func (s *Session) waitForWork() (waited, ok bool) {
	var timeout <-chan struct{}
	if d := s.patience(); d > 0 {
		timer := signal.After(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-s.called:
		return false, true
	case <-timeout:
		return true, true
	case <-s.ctx.Done():
		return false, false
	}
}

// patience is how long the scheduler waits; 0: until it is called.
func (s *Session) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.atLimit:
		return StallPatience
	case len(s.idleWorkers) > 0:
		return idlePatience
	}
	return 0
}

type callKeyType struct{}

// callKey leads from the context of a call to the session that needs workers.
var callKey any = callKeyType{}
