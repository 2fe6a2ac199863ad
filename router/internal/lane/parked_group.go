package lane

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// groupKey names a parked group; a message without a group parks alone, under
// its sequence number.
type groupKey struct {
	group string
	alone opKey // zero for groups
}

func keyOf(slot int, group string, seq int64) groupKey {
	if group == "" {
		return groupKey{alone: opKey{slot, seq}}
	}
	return groupKey{group: group}
}

// parkedGroup is what a session knows of a group in the parking. While it
// exists, fresh messages of the group join it at its end. The session is the
// only writer of its parked rows (operators' commands are noticed by a counter
// and make it read them anew), so the counts are exact.
//
// The functions of this file are the only ones that change it.
type parkedGroup struct {
	key       groupKey
	slot      int
	count     int // rows that are not dead, stored or about to be
	live      int // of those, in the lane now
	blockers  int // sent before the group was parked, not concluded yet
	due       time.Time
	since     time.Time // of its first message, about: created or parked
	held      bool      // waits for an operator
	paused    bool      // nothing of it goes until an operator resumes it
	evicted   bool      // parked to make room: may come back when an address does
	evictions int       // times in a row that it was

	credits Credits[int64] // by the sequence number of the row

	// While its rows are read nothing is added to them: what they say is then all
	// that there is. Fresh messages are kept aside until it is known.
	loading bool
	limit   int  // of the read
	again   bool // something was added all the same
	aside   []*Item
}

// movable reports whether the first rows may be brought back when they are due.
func (g *parkedGroup) movable() bool {
	return g.count > 0 && g.live == 0 && g.blockers == 0 && !g.held && !g.paused && !g.loading
}

// allHere reports whether all rows of the group are in the lane, at the gate:
// then fresh messages may get in line behind them, and a busy group leaves the
// parking.
func (g *parkedGroup) allHere() bool {
	return g.live > 0 && g.live == g.count && g.blockers == 0 && !g.paused && !g.loading
}

func (g *parkedGroup) empty() bool { return g.count == 0 && g.live == 0 && g.blockers == 0 }

// pause keeps the group in the parking, or no longer.
func (g *parkedGroup) pause(paused bool) { g.paused = paused }

// wait plans when the first rows are brought back; zero: they say it when they are read.
func (g *parkedGroup) wait(due time.Time) { g.due = due }

// first takes the state of the message that is first now.
func (g *parkedGroup) first(status adapters.ParkedStatus, due time.Time) {
	g.due, g.held = due, status == adapters.ParkedHeld
}

// store counts the row of an item; it reports whether it is a new one.
func (g *parkedGroup) store(it *Item) (added bool) {
	g.again = g.loading
	if added = !it.stored; added {
		it.stored = true
		g.count++
	}
	return added
}

// block notes that an item which is being sent keeps the group where it is.
func (g *parkedGroup) block(it *Item) {
	if !it.blocker {
		it.blocker = true
		g.blockers++
	}
}

// load begins a read of the first rows.
func (g *parkedGroup) load(limit int) { g.loading, g.limit = true, limit }

// waitAside keeps a fresh message until the read ends.
func (g *parkedGroup) waitAside(it *Item) { g.aside = append(g.aside, it) }

// loaded ends the read. Again: something was added meanwhile, so what was read is too
// little; aside are the fresh messages that came.
func (g *parkedGroup) loaded() (again bool, aside []*Item) {
	again, aside = g.again, g.aside
	g.loading, g.again, g.aside = false, false, nil
	return again, aside
}

// enter notes that the row of an item is in the lane.
func (g *parkedGroup) enter(it *Item) {
	it.stored, it.injected = true, true
	g.live++
}

// leave notes that an item is not in the lane any more; its row stays. It reports
// whether it had come out of the parking.
func (g *parkedGroup) leave(it *Item) (injected bool) {
	if it.blocker {
		it.blocker = false
		g.blockers--
	}
	if injected = it.injected; injected {
		it.injected = false
		g.live--
	}
	return injected
}

// settle notes that the item's row is settled or dead: the group moves. It reports whether
// there is a row.
func (g *parkedGroup) settle(it *Item) (stored bool) {
	g.moved()
	g.evictions = 0
	if stored = it.stored; stored {
		it.stored = false
		g.count--
	}
	return stored
}

// moved notes that the group does not wait to be readmitted.
func (g *parkedGroup) moved() { g.evicted = false }

// recount takes over how many rows there are: an operator may have taken some away.
func (g *parkedGroup) recount(n int) { g.count = n }

func (g *parkedGroup) evict() { g.evicted, g.evictions = true, g.evictions+1 }

// awaitPoison notes that the group waits for the poison destination: it may come back when
// that does.
func (g *parkedGroup) awaitPoison() { g.evicted = true }

// readmit makes a group due that was parked to make room, or that waits for the poison
// destination. It reports whether it is one.
func (g *parkedGroup) readmit() bool {
	if !g.evicted {
		return false
	}
	g.evicted, g.evictions, g.due = false, 0, time.Time{}
	return true
}

// found takes over what was read of the group after an operator's command. Of the rows in
// the lane the operator may have taken some away, which are counted until they end. What
// is counted twice for that is noticed when there is nothing to load.
func (g *parkedGroup) found(l adapters.ParkedGroup) {
	g.count, g.due, g.held = l.Count+g.live+g.blockers, l.Due, l.Held
}

// missed is found for a group of which nothing was read.
func (g *parkedGroup) missed() { g.count = g.live + g.blockers }
