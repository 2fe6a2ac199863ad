package lane

import (
	"cmp"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// parking puts messages into the parking and takes them out; the pump brings them back. The session's mutex guards all but the channel.
type parking struct {
	session  *Session // of items that come back
	route    *Route
	origin   Origin
	gate     *handlers.Gate
	progress *progress

	groups parkedgroup.Groups
	aside  map[parkedgroup.Key][]*Item // fresh messages of groups whose rows are being read
	paused *PausedGroups               // of the route, as the session has heard; nil: none is
	live   int
	here   map[parkedgroup.Row]*Item // that are in the lane and have a row
	kicked chan struct{}
}

func newParking(s *Session, groups []adapters.ParkedGroup) parking {
	p := parking{session: s, route: s.Route, origin: s.origin, gate: s.gate, progress: &s.progress, paused: s.Route.paused.Load(),
		groups: parkedgroup.New(s.pump.planned), aside: map[parkedgroup.Key][]*Item{}, here: map[parkedgroup.Row]*Item{}, kicked: make(chan struct{}, 1)}
	for _, l := range groups {
		g := p.groups.Add(l, p.paused.Has(l.Group))
		g.AwaitPoison(p.route.poison != nil) // its first message may
	}
	return p
}

// of returns the parked group that a message has to join, or nil. A paused group is one.
func (p *parking) of(it *Item) *parkedgroup.Group {
	if it.key == "" {
		return nil
	}
	g := p.groups.All()[it.parkedKey()]
	if g == nil && p.paused.Has(it.key) {
		g = p.groupOf(it)
	}
	return g
}

// groupOf returns the item's parked group, creating it.
func (p *parking) groupOf(it *Item) *parkedgroup.Group {
	return p.groups.Open(it.parkedKey(), it.slot, it.Created(), p.paused.Has(it.key))
}

// park takes the item's group out of the lane: the item with the given status, the other messages as waiting, in their order. (Some may be
// before the item, if a middleware failed it.) Messages that are being sent stay before them and block the way back until they are
// concluded.
func (p *parking) park(it *Item, status adapters.ParkedStatus, at time.Time, cause error) *parkedgroup.Group {
	out, kept := p.gate.Withdraw(&it.Ticket, handlers.WholeGroup)
	kept = slices.DeleteFunc(kept, func(t *handlers.Ticket) bool { return owner(t).phase == finished }) // dead, and about to be written
	for _, t := range slices.Concat(kept, out) {
		p.progress.number(owner(t))
	}
	g := p.groupOf(it)
	for _, t := range kept {
		p.block(owner(t), g)
	}
	for _, t := range out {
		x := owner(t)
		p.route.Health.Left(x)
		switch {
		case x == it:
			p.store(x, g, status, at, cause)
		case x.Stored() && x.saved == x.toSave():
			p.takeOut(x, g)
		default:
			p.store(x, g, adapters.ParkedWaiting, time.Time{}, nil)
		}
	}
	if len(out) > 0 && owner(out[0]) == it {
		g.Front(status, at)
	} else {
		g.Front(adapters.ParkedWaiting, time.Time{}) // the first of them says when it is loaded
	}
	p.groups.Plan(g)
	p.progress.notify()
	return g
}

// block notes that an item which is being sent keeps its group in the parking. It is stored too, so that the cursor can move over it while
// it hangs.
func (p *parking) block(it *Item, g *parkedgroup.Group) {
	g.Block(&it.Member)
	if !it.Stored() && !it.committed {
		p.here[it.parkedRow()] = it
		p.put(it, adapters.ParkedWaiting, time.Time{}, nil)
		g.Store(&it.Member)
	}
	p.progress.detach(it)
}

// join puts a fresh message behind its group, or aside while the group's rows are read.
func (p *parking) join(it *Item, g *parkedgroup.Group) {
	if g.State() == parkedgroup.Loading {
		p.aside[g.Key] = append(p.aside[g.Key], it)
		return
	}
	p.store(it, g, adapters.ParkedWaiting, time.Time{}, nil)
}

func (p *parking) store(it *Item, g *parkedgroup.Group, status adapters.ParkedStatus, at time.Time, cause error) {
	p.put(it, status, at, cause)
	failpoint.Hit(failpoint.Parking)
	if g.Store(&it.Member) {
		p.route.stats.parked.Add(1)
	}
	p.takeOut(it, g)
}

// takeOut takes the item out of the lane; its parked row stays.
func (p *parking) takeOut(it *Item, g *parkedgroup.Group) {
	p.progress.leave(it, parked)
	p.leave(it, g)
}

// leave notes that the item has left the lane.
func (p *parking) leave(it *Item, g *parkedgroup.Group) {
	delete(p.here, it.parkedRow())
	if g.Leave(&it.Member) {
		p.live--
	}
}

// put has the item's row written, and its message acknowledged when that is durable.
func (p *parking) put(it *Item, status adapters.ParkedStatus, at time.Time, cause error) {
	p.progress.rows.Put(p.row(it, status, at, cause))
	if ack := p.origin.Parked(it); ack != nil {
		p.progress.rows.Acks = append(p.progress.rows.Acks, ack)
	}
}

// row is the durable form of an item.
func (p *parking) row(it *Item, status adapters.ParkedStatus, at time.Time, cause error) adapters.Parked {
	p.progress.number(it)
	row := it.toPark()
	row.LaneRef = adapters.LaneRef{Route: p.route.Name, Slot: it.slot}
	row.Seq, row.Group, row.Status, row.NextAttemptAt = it.seq, it.key, status, at
	if it.Stored() {
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

// settled notes that the item is settled; with remove its row is removed, otherwise (dead) it stays. After the last one of its group the
// group flows again.
func (p *parking) settled(it *Item, remove bool) {
	if !it.Stored() && !it.Blocks() {
		return
	}
	g := p.groupOf(it)
	p.leave(it, g)
	if g.Settle(&it.Member) && remove {
		p.progress.rows.Remove(it.parkedRow())
	}
	p.changed(g)
}

// changed forgets a group that has nothing left, or plans its next step.
func (p *parking) changed(g *parkedgroup.Group) {
	if p.groups.Changed(g) {
		p.route.Feeder.Wake() // a lane of order global may read again
	}
}

// reconcile takes over the groups that were read after an operator's command. It returns the names of those that were not parked before.
func (p *parking) reconcile(groups []adapters.ParkedGroup) (added []string) {
	added, gone := p.groups.Reconcile(groups, p.paused.Has)
	if gone {
		p.route.Feeder.Wake()
	}
	return added
}

// withRows returns the messages in the lane whose rows have been written, by group and in order.
func (p *parking) withRows() map[parkedgroup.Key][]*Item {
	out := map[parkedgroup.Key][]*Item{}
	for k, it := range p.here {
		if it.Injected() || k.Seq < p.progress.streams[0].stored {
			key := it.parkedKey()
			out[key] = append(out[key], it)
		}
	}
	for _, items := range out {
		slices.SortFunc(items, func(a, b *Item) int { return cmp.Compare(a.seq, b.seq) })
	}
	return out
}

// credit gives attempts back to a message in the parking. Its row is corrected when it is read, which is at once unless its group is on
// its way back.
func (p *parking) credit(c *Charge) {
	g := p.groups.All()[c.group]
	if g == nil {
		return
	}
	g.Credits.Give(c.row.Seq, c.n)
	if g.Movable() {
		p.groups.Again(g, time.Time{})
	}
}

// repay gives an item the credits of itself and of its row, while its chain does not run.
func (p *parking) repay(it *Item) {
	if g := p.groups.All()[it.parkedKey()]; g != nil && it.seq != 0 {
		it.credits += g.Credits.Take(it.seq)
	}
	it.repay()
}
