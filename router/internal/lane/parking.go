package lane

import (
	"container/heap"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// groupKey names a parked group; a message without a group parks alone, under
// its sequence number.
type groupKey struct {
	group string
	alone opKey // zero for groups
}

// parkedGroup is what a session knows of a group in the parking. While it
// exists, fresh messages of the group join it at its end. The session is the
// only writer of its parked rows (operators' commands are noticed by a counter
// and make it read them anew), so the counts are exact.
type parkedGroup struct {
	key       groupKey
	slot      int
	count     int // rows that are not dead, stored or about to be
	live      int // of those, in the lane now
	blockers  int // sent before the group was parked, not concluded yet
	due       time.Time
	since     time.Time // of its first message, about: created or parked
	held      bool      // waits for an operator
	evicted   bool      // parked to make room: may come back when an address does
	evictions int       // times in a row that it was

	// While its rows are read nothing is added to them: what they say is then all
	// that there is. Fresh messages are kept aside until it is known.
	loading bool
	limit   int  // of the read
	again   bool // something was added all the same
	aside   []*Item

	// credits are attempts to be given back to messages, by their seq, when their
	// rows are read next.
	credits map[int64]int
}

// movable reports whether the first rows may be brought back when they are due.
func (g *parkedGroup) movable() bool {
	return g.count > 0 && g.live == 0 && g.blockers == 0 && !g.held && !g.loading
}

// allHere reports whether all rows of the group are in the lane, at the gate:
// then fresh messages may get in line behind them, and a busy group leaves the
// parking.
func (g *parkedGroup) allHere() bool {
	return g.live > 0 && g.live == g.count && g.blockers == 0 && !g.loading
}

// parking is the part of a session that concerns parked messages.
type parking struct {
	groups map[groupKey]*parkedGroup
	due    dueHeap
	live   int
	here   map[opKey]*Item // that are in the lane and have a row
	kicked chan struct{}
}

func (p *parking) init(groups []adapters.ParkedGroup) {
	p.groups = make(map[groupKey]*parkedGroup, len(groups))
	p.here = map[opKey]*Item{}
	p.kicked = make(chan struct{}, 1)
	for _, g := range groups {
		p.add(g)
	}
}

func (p *parking) add(l adapters.ParkedGroup) {
	g := &parkedGroup{key: keyOf(l.Slot, l.Group, l.FirstSeq), slot: l.Slot, count: l.Count, due: l.Due, since: l.Since, held: l.Held}
	p.groups[g.key] = g
	p.schedule(g)
}

func keyOf(slot int, group string, seq int64) groupKey {
	if group == "" {
		return groupKey{alone: opKey{slot, seq}}
	}
	return groupKey{group: group}
}

// of returns the parked group that a message has to join, or nil.
func (p *parking) of(it *Item) *parkedGroup {
	if it.key == "" {
		return nil
	}
	return p.groups[groupKey{group: it.key}]
}

// schedule plans the group's way back, if it can move.
func (p *parking) schedule(g *parkedGroup) {
	if !g.movable() {
		return
	}
	heap.Push(&p.due, dueEntry{g, g.due})
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// park takes the item's group out of the lane: the item with the given status,
// the others as waiting, all in their order. (Some may be before the item, when
// it was a middleware that failed it.) What is being sent at this moment keeps
// its place before them and blocks the way back until it is concluded.
func (s *Session) park(it *Item, status adapters.ParkedStatus, at time.Time, cause error) {
	out, kept := s.gate.Withdraw(&it.Ticket)
	for _, t := range slices.Concat(kept, out) {
		s.place(owner(t))
	}
	g := s.groupOf(it)
	for _, t := range kept {
		s.block(owner(t), g)
	}
	for _, t := range out {
		x := owner(t)
		x.stopWaiting()
		s.route.health.left(x)
		switch {
		case x == it:
			s.store(x, g, status, at, cause)
		case x.stored && x.saved == x.toSave():
			s.takeOut(x, g)
		default:
			s.store(x, g, adapters.ParkedWaiting, time.Time{}, nil)
		}
	}
	if len(out) > 0 && owner(out[0]) == it {
		g.due, g.held = at, status == adapters.ParkedHeld
	} else {
		g.due, g.held = time.Time{}, false // the first of them says when it is loaded
	}
	s.parking.schedule(g)
	s.noteProgress()
}

// block notes that an item which is being sent keeps its parked group where it
// is. It is stored too, so that the cursor can move over it while it hangs.
func (s *Session) block(it *Item, g *parkedGroup) {
	if !it.blocker {
		it.blocker = true
		g.blockers++
	}
	if it.stream == nil && !it.uncounted {
		s.extra--
	}
	it.uncounted = true // it takes no room in the lane: what hangs could fill it
	if it.stored {
		return
	}
	it.stored = true
	g.count++
	g.again = g.loading
	s.parking.here[opKey{it.slot, it.seq}] = it
	s.ops.put(s.parkedRow(it, adapters.ParkedWaiting, time.Time{}, nil))
	s.ackLater(it)
	if it.stream != nil {
		it.stream.finish(it.index)
		it.stream = nil
	}
}

// place gives the item its sequence number.
func (s *Session) place(it *Item) {
	if it.seq == 0 {
		it.seq = s.streams[0].nextSeq
		s.streams[0].nextSeq++
	}
}

// groupOf returns the item's parked group, creating it.
func (s *Session) groupOf(it *Item) *parkedGroup {
	k := keyOf(it.slot, it.key, it.seq)
	g := s.parking.groups[k]
	if g == nil {
		g = &parkedGroup{key: k, slot: it.slot, since: it.Born()}
		s.parking.groups[k] = g
	}
	return g
}

// store writes the item to the parking.
func (s *Session) store(it *Item, g *parkedGroup, status adapters.ParkedStatus, at time.Time, cause error) {
	g.again = g.loading
	s.ops.put(s.parkedRow(it, status, at, cause))
	failpoint.Hit(failpoint.Parking)
	if !it.stored {
		it.stored = true
		g.count++
		s.route.stats.parked.Add(1)
	}
	s.ackLater(it)
	s.takeOut(it, g)
}

// takeOut ends the item's presence in the lane; its parked row goes on.
func (s *Session) takeOut(it *Item, g *parkedGroup) {
	it.phase = parked
	s.releaseItem(it)
	delete(s.parking.here, opKey{it.slot, it.seq})
	if it.blocker {
		it.blocker = false
		g.blockers--
	}
	if it.injected {
		it.injected = false
		g.live--
		s.parking.live--
	}
}

// parkedRow is the durable form of an item.
func (s *Session) parkedRow(it *Item, status adapters.ParkedStatus, at time.Time, cause error) adapters.Parked {
	s.place(it)
	p := it.content()
	p.LaneRef = adapters.LaneRef{Route: s.route.Name, Slot: it.slot}
	p.Seq, p.Group, p.Status, p.NextAttemptAt = it.seq, it.key, status, at
	if it.stored {
		p.Was = it.saved.attempts
	}
	it.saved = it.toSave()
	p.Attempts = it.saved.attempts
	if status == adapters.ParkedDead || status == adapters.ParkedHeld {
		p.Attempts = it.Attempt.Number
	} else {
		p.Metadata = it.death.mark(p.Metadata)
	}
	p.LastError = it.lastError
	if cause != nil {
		p.LastError = cause.Error()
	}
	return p
}

// ackLater has the origin acknowledge a message once its parked row is durable.
func (s *Session) ackLater(it *Item) {
	if ack := s.origin.Parked(it); ack != nil {
		s.ops.acks = append(s.ops.acks, ack)
	}
}

// leaveParking notes that the item is settled; with remove its row goes too,
// otherwise (dead) it stays. When it was the last of its group the group flows
// again.
func (s *Session) leaveParking(it *Item, remove bool) {
	if it.seq == 0 || !it.stored && !it.blocker {
		return
	}
	g := s.groupOf(it)
	g.evicted, g.evictions = false, 0 // it moves
	delete(s.parking.here, opKey{it.slot, it.seq})
	if it.blocker {
		it.blocker = false
		g.blockers--
	}
	if it.stored {
		it.stored = false
		g.count--
		if remove {
			s.ops.remove(it.slot, it.seq)
		}
	}
	if it.injected {
		it.injected = false
		g.live--
		s.parking.live--
	}
	s.changed(g)
}

// changed forgets a group that has nothing left, or plans its next step.
func (s *Session) changed(g *parkedGroup) {
	if g.count == 0 && g.live == 0 && g.blockers == 0 {
		delete(s.parking.groups, g.key)
		s.route.Feeder.Wake() // a lane of order global may read again
		return
	}
	if g.live == 0 {
		g.due = time.Time{}
		s.parking.schedule(g)
	}
}

// dueEntry is a group's planned way back; stale when the group changed since.
type dueEntry struct {
	group *parkedGroup
	at    time.Time
}

// dueHeap orders groups by when they are due (container/heap).
type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	*h = append(*h, x.(dueEntry)) //nolint:forcetypeassert // container/heap hands over what it was given
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = dueEntry{}
	*h = old[:n]
	return x
}
