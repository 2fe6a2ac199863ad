package lane

import (
	"context"
	"sync"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// Session is one period of owning a lane. It begins with the state that the
// store handed over and ends drained or lost; nothing outlives it but what was
// settled.
type Session struct {
	lane   *Lane
	route  *Route
	table  adapters.Table // that its cursors belong to
	origin Origin
	gate   *handlers.Gate
	fenced adapters.Destination // made for this session alone; nil: the route's is used
	ctx    context.Context      // ends when the session stops
	cancel context.CancelFunc
	wg     sync.WaitGroup // scheduler and pump

	mu       sync.Mutex
	runner   runner
	stopping bool
	lost     bool      // no longer ours: nothing may be settled
	cutOff   bool      // a stop could wait no longer: deliveries were cancelled
	unknown  int       // chains that ended after that without telling whether their message arrived
	streams  []*Stream // aligned with lane.slots
	arrivals uint64    // items that were given a place at the gate
	extra    int       // items under way that did not come by cursor
	live     int64     // memory of unfinished items
	settler  *settling.Settler

	parking        parking
	loading        settling.CallTimeout // of a look into the parking; only the pump uses it
	ops            ops                  // not yet settled
	flight         *ops                 // being settled
	evictionLooked time.Time            // when blocked groups were last looked for
}

// NewSession prepares the lane with what Acquire and ParkedGroups returned. Its cursors
// belong to table.
func NewSession(l *Lane, table adapters.Table, states []adapters.LaneState, groups []adapters.ParkedGroup) *Session {
	s := &Session{lane: l, route: l.route, table: table,
		settler: l.route.settler, loading: settling.CallTimeout{Usual: l.route.shared.Patience}}
	s.origin = l.route.Feeder.Origin(s)
	s.ctx, s.cancel = context.WithCancel(context.WithValue(context.Background(), lanectx.Share, l.route.owned))
	s.runner = newRunner(s)
	s.gate = handlers.NewGate(handlers.GateConfig{
		Destination: s.through(),
		Limiter:     l.route.limiter,
		Allow:       l.route.health.allow,
		Permit:      l.route.Lease.MaySend,
		SendTimeout: l.route.SendTimeout,
		Ended:       s.runAfterDelivery,
	})
	size := 1
	for size < l.route.Window {
		size *= 2
	}
	for _, st := range states {
		str := &Stream{session: s, Slot: st.Slot, Epoch: st.Epoch, Commands: st.Commands, nextSeq: max(st.NextSeq, 1), stored: st.NextSeq, ring: make([]entry, size),
			settled: st.Cursor, Fetched: st.Cursor, revision: st.Revision, confirmed: st.Revision}
		str.skip = make(map[int64]struct{}, len(st.Beyond))
		for _, p := range st.Beyond {
			str.skip[p] = struct{}{}
		}
		str.unwritten = settling.Written
		if st.New || st.Placed { // where it starts is written at once: later it would start elsewhere
			str.unwritten = settling.Concluded
		}
		s.streams = append(s.streams, str)
	}
	s.parking.init(groups)
	for _, g := range s.parking.groups {
		g.evicted = l.route.poison != nil // its first message may wait for the poison destination
	}
	return s
}

// Start begins the goroutines of the session.
func (s *Session) Start() {
	s.wg.Add(2) // before anybody finds the session in its lane, who may stop it and wait
	s.lane.session.Store(s)
	if s.route.DeliverFirst {
		go s.offerMessages()
	} else {
		go func() {
			defer s.wg.Done()
			s.runner.scheduleWorkers()
		}()
	}
	go s.pump()
}

// Room is how many more rows the lane takes. A lane of order global takes none
// while something is parked: everything would have to be parked behind it.
func (s *Session) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || s.route.Order == adapters.OrderGlobal && len(s.parking.groups) > 0 {
		return 0
	}
	return s.route.Window - s.pending()
}

// pending counts what is not durably settled. Call with the mutex held.
func (s *Session) pending() int {
	n := s.extra
	for _, str := range s.streams {
		n += str.pending()
	}
	return n
}

// Arrival is a row that the reader gives to a stream. A row that the route does
// not match only moves the cursor.
type Arrival struct {
	Stream  *Stream
	Row     *adapters.Row
	Matched bool
	Cost    int64
}

// Accept takes fetched rows in order. The reader has made sure of the room and
// taken the memory.
func (s *Session) Accept(rows []Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		for _, a := range rows {
			s.route.Share.Give(a.Cost)
		}
		return
	}
	for _, a := range rows {
		s.acceptRow(a)
	}
	s.runner.proceed()
}

func (s *Session) acceptRow(a Arrival) {
	str, row := a.Stream, a.Row
	if !a.Matched {
		str.Fetched = row.After()
		str.catchUp()
		return
	}
	index := str.append(row)
	if _, done := str.skip[row.Position]; done {
		delete(str.skip, row.Position)
		s.route.Share.Give(a.Cost)
		str.finish(index)
		s.noteProgress()
		return
	}
	s.live += a.Cost
	it := &Item{
		Session: s, row: row, stream: str, index: index, cost: a.Cost, slot: s.lane.Slots[0],
		key:     s.route.Key(row.Group),
		Attempt: outbox.Attempt{Route: s.route.Name, Lane: s.lane.Name, Number: 1},
	}
	it.Owner = it
	s.admit(it)
}

// admit gives a new item its place: at the gate or, behind its group, in the
// parking. While the group's rows are being read it waits for what they are.
func (s *Session) admit(it *Item) {
	switch g := s.parking.of(it); {
	case g == nil || g.allHere() || s.behindFresh(it.key):
		s.enter(it)
	case g.loading:
		g.aside = append(g.aside, it)
	default:
		s.store(it, g, adapters.ParkedWaiting, time.Time{}, nil)
		s.noteProgress() // it takes room until it is written down
	}
}

// behindFresh reports whether the last message of a group in the lane came in
// behind all of its parked rows and has none itself. Then the next one follows it:
// after an operator's command a group may count more rows than there are, and in
// the parking the next one would get its place before it. Call with the mutex held.
func (s *Session) behindFresh(key string) bool {
	t := s.gate.Last(key)
	return t != nil && !owner(t).stored
}

// enter gives an item its place at the gate and has its chain run.
func (s *Session) enter(it *Item) {
	s.arrivals++
	it.arrival = s.arrivals
	it.Attempt.Place = s.route.shared.places.Add(1)
	s.gate.Enter(&it.Ticket, it.key)
	s.runner.push(it)
}

// MoveTo sets where a stream's next read begins, after a read that yielded no
// more for it. A session that stops has not taken what the read yielded, and must
// not pass it.
func (s *Session) MoveTo(str *Stream, c adapters.Cursor, order uint64, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	str.Fetched, str.Order, str.Drained = c, order, drained
	str.catchUp()
}

// rerun runs the chain of an item again; false when it has left the lane.
func (s *Session) rerun(it *Item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || it.phase == finished || it.phase == parked {
		return false
	}
	it.phase, it.wait = running, nil
	it.giveBack(it.owed + s.parking.takeCredit(it))
	it.owed = 0
	s.runner.push(it)
	s.runner.proceed()
	return true
}

// Stop ends the session's work: no chain begins any more, what waits is released,
// what is being sent gets its outcome. It returns when all chains have ended or
// ctx does; then deliveries are cancelled and their outcome is unknown, of as many
// messages as leftUnknown tells.
// Settling what was concluded is left to the caller.
func (s *Session) Stop(ctx context.Context) {
	s.cancel() // first: a query that does not return may hold the mutex
	s.mu.Lock()
	s.stopping = true
	s.runner.stop()
	s.mu.Unlock()
	abort := context.AfterFunc(ctx, s.cut)
	s.gate.Stop()
	s.wg.Wait()
	s.runner.await(ctx)
	if ctx.Err() != nil {
		s.cut() // before it was, perhaps
		s.awaitCutOff()
	}
	abort()
	s.gate.Abort() // frees the context
	s.closeFenced()
	s.route.health.forget(s)
	s.letGo()
	s.lane.session.CompareAndSwap(s, nil)
}

// Lost reports whether the lane is no longer the session's.
func (s *Session) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Lose marks the session as one whose lane is no longer its own: nothing more of it is
// settled. It reports whether the session is to be stopped now, having called off what
// it sends. One that is no longer in its lane must only not take for written what it
// tried to write: the lane may have a next session, which is none of its business.
func (s *Session) Lose() (stop bool) {
	s.mu.Lock()
	already := s.lost
	s.lost = true
	s.mu.Unlock()
	if already || s.lane.session.Load() != s {
		return false
	}
	s.gate.Abort()
	return true
}

// Lane returns the lane that the session works.
func (s *Session) Lane() *Lane { return s.lane }

// Route returns the route of the lane.
func (s *Session) Route() *Route { return s.route }

// Streams returns the streams of the lane's slots, in the order of those.
func (s *Session) Streams() []*Stream { return s.streams }

// Context ends when the session stops.
func (s *Session) Context() context.Context { return s.ctx }

// Kick has what waits to be sent looked at again.
func (s *Session) Kick() { s.gate.Kick() }

// message.Subscriber is what a lane is to Watermill.
var _ message.Subscriber = (*Lane)(nil)
