package lane

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/internal/lanectx"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Session is one period of owning a lane. It begins with the state of the store and ends drained or lost; only what was settled outlives it.
// Its parts are described in the package comment.
type Session struct {
	Lane   *Lane
	Route  *Route
	origin Origin
	gate   *handlers.Gate
	fenced adapters.Destination // made for this session alone; nil: the route's is used
	ctx    context.Context
	cancel context.CancelFunc
	doubt  atomic.Bool    // the server may be another one, which lacks what was read
	wg     sync.WaitGroup // the goroutines that bring messages back and that offer them, while there are some
	pump   pump

	mu       sync.Mutex
	lost     bool   // no longer ours: nothing may be settled
	arrivals uint64 // items that have entered the gate
	runner   runner
	outcomes outcomes
	parking  parking
	progress progress
	landed   sync.Cond // a write of the lane has its outcome; see transact

	evictionSearched time.Time // when blocked groups were last looked for
}

// NewSession prepares the lane with what Acquire and ParkedGroups returned. Its cursors belong to table.
func NewSession(l *Lane, table adapters.Table, states []adapters.LaneState, groups []adapters.ParkedGroup) *Session {
	s := &Session{Lane: l, Route: l.route}
	s.landed.L = &s.mu
	s.origin = l.route.Feeder.Origin(s)
	s.ctx, s.cancel = context.WithCancel(context.WithValue(context.Background(), lanectx.Share, l.route.owned))
	s.runner = newRunner(s)
	s.fenced = through(s)
	s.gate = handlers.NewGate(handlers.GateConfig{
		Destination: l.route.gateDestination(cmp.Or(s.fenced, l.route.Destination)),
		Limiter:     l.route.limiter,
		Allow:       l.route.allow,
		Permit:      l.route.Lease.MaySend,
		Judge:       l.route.judge,
		SendTimeout: l.route.SendTimeout,
		Ended:       s.ended,
	})
	s.progress = newProgress(l.route, table, states, s)
	if _, noted := s.fenced.(once); noted {
		s.progress.ledger = newLedger(s)
	}
	s.parking = newParking(s, groups)
	s.outcomes = newOutcomes(s)
	s.pump = pump{ctx: s.ctx, route: l.route, parking: &s.parking, mu: &s.mu,
		begin: func() { s.wg.Go(s.bringBack) }, loading: settling.CallTimeout{Usual: l.route.shared.Patience}}
	return s
}

// Start puts the session into its lane. An idle one has no goroutine: thousands of lanes would have twice as many.
func (s *Session) Start() {
	s.Lane.session.Store(s)
	applyPausedGroups(s) // of which the route heard since the session was made
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pump.started = true
	s.pump.planned()
}

// Room is how many more rows the lane takes. A lane of order global takes none while something is parked: everything would have to be parked
// behind it.
func (s *Session) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping || s.Route.Order == adapters.OrderGlobal && len(s.parking.groups.All()) > 0 {
		return 0
	}
	return s.Route.Window - s.progress.pending()
}

// Stop ends the session: no chain begins any more, what waits is released, what is being sent gets its outcome. It returns when all chains
// have ended or ctx does; then deliveries are cancelled and their outcome is unknown; [UnknownBy] counts these messages. The caller settles
// what was concluded.
func (s *Session) Stop(ctx context.Context) {
	s.cancel() // first: a query that does not return may hold the mutex
	s.mu.Lock()
	s.runner.stopLocked()
	s.mu.Unlock()
	cut := func() {
		s.mu.Lock()
		s.runner.cut = true
		s.mu.Unlock()
		s.gate.Abort()
	}
	abort := context.AfterFunc(ctx, cut)
	s.gate.Stop()
	s.wg.Wait()
	s.runner.await(ctx)
	if ctx.Err() != nil {
		cut() // before it was, perhaps
		moment, cancel := context.WithTimeout(context.Background(), CutMoment)
		s.runner.await(moment)
		cancel()
	}
	abort()
	s.gate.Abort() // frees the context
	if s.fenced != nil {
		if err := s.fenced.Close(); err != nil {
			s.Route.Log().Debug("closing what a lane delivered through", "lane", s.Lane.Name, "error", err)
		}
	}
	s.Route.Health.Forget(func(it *Item) bool { return it.Session == s }, func(c *Charge) bool { return c.session == s })
	s.mu.Lock()
	s.progress.giveUp()
	s.origin.Release()
	s.mu.Unlock()
	s.Lane.session.CompareAndSwap(s, nil)
}

// Lost reports whether the lane is no longer the session's.
func (s *Session) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Lose marks the session as one whose lane is no longer its own: nothing more of it is settled. It cancels deliveries and reports whether the
// session is to be stopped now. For a session that has left its lane it only marks that its last writes did not succeed: the lane may
// already have its next session.
func (s *Session) Lose() (stop bool) {
	s.mu.Lock()
	already := s.lost
	s.lost = true
	s.landed.Broadcast()
	s.mu.Unlock()
	if already || s.Lane.session.Load() != s {
		return false
	}
	s.gate.Abort()
	return true
}

// Context ends when the session stops.
func (s *Session) Context() context.Context { return s.ctx }

// Streams returns the streams of the lane's slots, in the order of those.
func (s *Session) Streams() []*Stream { return s.progress.streams }

// bringBack lets parked messages into the lane when they are due, until none is planned.
func (s *Session) bringBack() {
	kicked := s.parking.kicked // not the session: the runtime may keep a stopped timer, with what it refers to
	timer := time.AfterFunc(time.Hour, func() { signal.Send(kicked) })
	defer timer.Stop()
	for s.ctx.Err() == nil {
		groups, wait, full := s.pump.dueGroups(time.Now())
		if wait < 0 {
			return
		}
		if full { // of what came back before, and does not move perhaps
			s.EvictBlocked(time.Now(), true)
		}
		if len(groups) > 0 {
			if wait = s.load(groups); wait == 0 {
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-s.ctx.Done():
		case <-kicked:
		}
	}
}

// load reads the first messages of each group and lets them into the lane. The rows must be durable before they are read back.
func (s *Session) load(groups []*parkedgroup.Group) (wait time.Duration) {
	err := writeParked(s)
	for _, g := range groups {
		var rows []adapters.Parked
		var taken int64
		if err == nil {
			rows, taken, err = s.pump.read(g)
		}
		s.mu.Lock()
		s.Route.Memory.Give(taken) // each message takes its own
		if s.runner.stopping {
			s.mu.Unlock()
			continue
		}
		back, fresh := s.parking.loaded(g, rows, err)
		for _, it := range back {
			s.enterLocked(it)
		}
		for _, it := range fresh {
			s.admitLocked(it)
		}
		s.runner.proceedLocked()
		s.mu.Unlock()
	}
	if errors.Is(err, errLater) {
		s.EvictBlocked(time.Now(), true)
	}
	return s.pump.report(err, s.Lane.Name)
}

// Settlements implements [settling.Batch].
func (s *Session) Settlements(e settling.Extent) []adapters.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return nil
	}
	if s.runner.stopping { // no later settle writes the rest
		e = settling.Everything
	}
	return s.progress.settlements(e, nil)
}

// Settled implements [settling.Batch].
func (s *Session) Settled(ok bool) {
	if !ok {
		Doubt(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	settledLocked(s, ok)
}

func settledLocked(s *Session, ok bool) {
	written, durable := s.progress.settled(ok)
	s.landed.Broadcast()
	if durable {
		for _, it := range written.Dead {
			it.(*Item).DeathWritten() //nolint:forcetypeassert // deadLetter has put it there
		}
		s.origin.Durable(written.Acks, s.lost)
		s.Route.Feeder.RoomFreed()
	}
}

// addStats adds the session to the counters of its route.
func addStats(s *Session, to *adapters.RouteStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Lanes++
	to.InFlight += s.progress.pending()
	to.ParkedNow += len(s.parking.groups.All())
	if created := earlier(s.progress.oldest(), s.parking.groups.Oldest()); !created.IsZero() {
		to.Oldest = max(to.Oldest, time.Since(created))
	}
}

// Durable returns, by slot, the positions up to which all is durably settled.
func Durable(s *Session) map[int]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[int]int64, len(s.progress.streams))
	for _, str := range s.progress.streams {
		out[str.Slot] = str.written
	}
	return out
}

// Confirmed returns, for each stream, the last settle that is known to be durable.
func (s *Session) Confirmed() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int64, len(s.progress.streams))
	for i, str := range s.progress.streams {
		out[i] = str.confirmed
	}
	return out
}
