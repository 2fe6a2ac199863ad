package lane

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// parking is what a session knows of its messages in the parking. It puts messages
// there and takes them out; what brings them back is the pump. All but the channel is
// guarded by the session's mutex.
type parking struct {
	session  *Session // of items that come back
	route    *Route
	origin   Origin
	gate     *handlers.Gate
	progress *progress

	groups map[groupKey]*parkedGroup
	paused *PausedGroups // of the route, as the session has heard; nil: none is
	due    dueHeap
	live   int
	here   map[opKey]*Item // that are in the lane and have a row
	kicked chan struct{}
}

func newParking(s *Session, groups []adapters.ParkedGroup) parking {
	p := parking{session: s, route: s.Route, origin: s.origin, gate: s.gate, progress: &s.progress,
		paused: s.Route.paused.Load(), groups: make(map[groupKey]*parkedGroup, len(groups)), here: map[opKey]*Item{}, kicked: make(chan struct{}, 1)}
	for _, l := range groups {
		if g := p.add(l); p.route.poison != nil { // its first message may wait for it
			g.awaitPoison()
		}
	}
	return p
}

// add takes over a group that was read.
func (p *parking) add(l adapters.ParkedGroup) *parkedGroup {
	g := &parkedGroup{key: keyOf(l.Slot, l.Group, l.FirstSeq), slot: l.Slot, count: l.Count, due: l.Due, since: l.Since, held: l.Held}
	g.paused = p.paused.Has(l.Group)
	p.groups[g.key] = g
	p.schedule(g)
	return g
}

// of returns the parked group that a message has to join, or nil. A paused group is one.
func (p *parking) of(it *Item) *parkedGroup {
	if it.key == "" {
		return nil
	}
	g := p.groups[groupKey{group: it.key}]
	if g == nil && p.paused.Has(it.key) {
		g = p.groupOf(it)
	}
	return g
}

// groupOf returns the item's parked group, creating it.
func (p *parking) groupOf(it *Item) *parkedGroup {
	k := keyOf(it.slot, it.key, it.seq)
	g := p.groups[k]
	if g == nil {
		g = &parkedGroup{key: k, slot: it.slot, since: it.Created(), paused: p.paused.Has(it.key)}
		p.groups[k] = g
	}
	return g
}

// schedule plans the group's way back, if it can move.
func (p *parking) schedule(g *parkedGroup) {
	if g.movable() {
		heap.Push(&p.due, dueEntry{g, g.due})
		signal.Send(p.kicked)
	}
}

// again has the first rows of a group read when they are due.
func (p *parking) again(g *parkedGroup, due time.Time) {
	g.wait(due)
	p.schedule(g)
}

// park takes the item's group out of the lane: the item with the given status,
// the others as waiting, all in their order. (Some may be before the item, when
// it was a middleware that failed it.) What is being sent at this moment keeps
// its place before them and blocks the way back until it is concluded.
func (p *parking) park(it *Item, status adapters.ParkedStatus, at time.Time, cause error) *parkedGroup {
	out, kept := p.gate.Withdraw(&it.Ticket, handlers.WholeGroup)
	for _, t := range slices.Concat(kept, out) {
		p.progress.number(owner(t))
	}
	g := p.groupOf(it)
	for _, t := range kept {
		p.block(owner(t), g)
	}
	for _, t := range out {
		x := owner(t)
		p.route.health.left(x)
		switch {
		case x == it:
			p.store(x, g, status, at, cause)
		case x.stored && x.saved == x.toSave():
			p.takeOut(x, g)
		default:
			p.store(x, g, adapters.ParkedWaiting, time.Time{}, nil)
		}
	}
	if len(out) > 0 && owner(out[0]) == it {
		g.first(status, at)
	} else {
		g.first(adapters.ParkedWaiting, time.Time{}) // the first of them says when it is loaded
	}
	p.schedule(g)
	p.progress.note()
	return g
}

// block notes that an item which is being sent keeps its parked group where it
// is. It is stored too, so that the cursor can move over it while it hangs.
func (p *parking) block(it *Item, g *parkedGroup) {
	g.block(it)
	if !it.stored && !it.committed {
		p.here[opKey{it.slot, it.seq}] = it
		p.put(it, adapters.ParkedWaiting, time.Time{}, nil)
		g.store(it)
	}
	p.progress.detach(it)
}

// join puts a fresh message behind its group, or aside while the group's rows are read.
func (p *parking) join(it *Item, g *parkedGroup) {
	if g.loading {
		g.waitAside(it)
		return
	}
	p.store(it, g, adapters.ParkedWaiting, time.Time{}, nil)
}

func (p *parking) store(it *Item, g *parkedGroup, status adapters.ParkedStatus, at time.Time, cause error) {
	p.put(it, status, at, cause)
	failpoint.Hit(failpoint.Parking)
	if g.store(it) {
		p.route.stats.parked.Add(1)
	}
	p.takeOut(it, g)
}

// takeOut ends the item's presence in the lane; its parked row stays.
func (p *parking) takeOut(it *Item, g *parkedGroup) {
	p.progress.leave(it, parked)
	p.leave(it, g)
}

// leave notes that the item is not in the lane any more.
func (p *parking) leave(it *Item, g *parkedGroup) {
	delete(p.here, opKey{it.slot, it.seq})
	if g.leave(it) {
		p.live--
	}
}

// put has the item's row written, and its message acknowledged once that is durable.
func (p *parking) put(it *Item, status adapters.ParkedStatus, at time.Time, cause error) {
	p.progress.ops.put(p.row(it, status, at, cause))
	if ack := p.origin.Parked(it); ack != nil {
		p.progress.ops.acks = append(p.progress.ops.acks, ack)
	}
}

// row is the durable form of an item.
func (p *parking) row(it *Item, status adapters.ParkedStatus, at time.Time, cause error) adapters.Parked {
	p.progress.number(it)
	row := it.content()
	row.LaneRef = adapters.LaneRef{Route: p.route.Name, Slot: it.slot}
	row.Seq, row.Group, row.Status, row.NextAttemptAt = it.seq, it.key, status, at
	if it.stored {
		row.Was = it.saved.attempts
	}
	it.saved = it.toSave()
	row.Attempts = it.saved.attempts
	if status == adapters.ParkedDead || status == adapters.ParkedHeld {
		row.Attempts = it.Attempt.Number
	} else {
		row.Metadata = it.death.mark(row.Metadata)
	}
	row.LastError, row.Tries = it.lastError(), it.remembered()
	if cause != nil {
		row.LastError = textOf(cause)
	}
	return row
}

// settled notes that the item is settled; with remove its row goes too, otherwise
// (dead) it stays. When it was the last of its group the group flows again.
func (p *parking) settled(it *Item, remove bool) {
	if !it.stored && !it.blocker {
		return
	}
	g := p.groupOf(it)
	p.leave(it, g)
	if g.settle(it) && remove {
		p.progress.ops.remove(it.slot, it.seq)
	}
	p.changed(g)
}

// changed forgets a group that has nothing left, or plans its next step.
func (p *parking) changed(g *parkedGroup) {
	if g.empty() {
		delete(p.groups, g.key)
		p.route.Feeder.Wake() // a lane of order global may read again
		return
	}
	if g.live == 0 {
		p.again(g, time.Time{})
	}
}

// readmit makes groups due that were parked to make room, because an address
// of the route is back; perhaps it was theirs.
func (p *parking) readmit() {
	for _, g := range p.groups {
		if g.readmit() {
			p.schedule(g)
		}
	}
}

// reconcile takes over what was read after an operator's command. It returns the names of
// groups that were not in the parking.
func (p *parking) reconcile(groups []adapters.ParkedGroup) (added []string) {
	seen := map[groupKey]bool{}
	for _, l := range groups {
		k := keyOf(l.Slot, l.Group, l.FirstSeq)
		seen[k] = true
		if g := p.groups[k]; g != nil {
			g.found(l)
			p.schedule(g)
			continue
		}
		p.add(l)
		added = append(added, l.Group)
	}
	for k, g := range p.groups {
		if !seen[k] && !g.loading {
			g.missed()
			p.changed(g)
		}
	}
	return added
}

// withRows returns the messages in the lane whose rows have been written, by group
// and in order.
func (p *parking) withRows() map[groupKey][]*Item {
	out := map[groupKey][]*Item{}
	for k, it := range p.here {
		if it.injected || k.seq < p.progress.streams[0].stored {
			key := keyOf(k.slot, it.key, k.seq)
			out[key] = append(out[key], it)
		}
	}
	for _, items := range out {
		slices.SortFunc(items, func(a, b *Item) int { return cmp.Compare(a.seq, b.seq) })
	}
	return out
}

// oldest is when the first message of the groups that are not held was created or parked.
func (p *parking) oldest() (oldest time.Time) {
	for _, g := range p.groups {
		if !g.held && !g.paused {
			oldest = earlier(oldest, g.since)
		}
	}
	return oldest
}
