package parkedgroup

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Row names a parked row of a lane.
type Row struct {
	Slot int
	Seq  int64
}

// Key names a parked group. A message without a group parks alone, under its row.
type Key struct {
	Group string
	Alone Row // zero for groups
}

// KeyOf returns the key of a message's group.
func KeyOf(slot int, group string, seq int64) Key {
	if group == "" {
		return Key{Alone: Row{slot, seq}}
	}
	return Key{Group: group}
}

// State is the state of a parked group; see ARCHITECTURE.md.
type State int

// The states.
const (
	Waiting State = iota // its first rows are read when they are due
	Loading              // they are being read
	InLane               // some are in the lane
	Blocked              // messages are being sent that were sent before the group was parked
	Held                 // it waits for an operator
	Empty                // it has no rows and no messages: its session forgets it
)

// Group is a group that has rows in the parking. While it exists, fresh messages of the group join it at its end. Its session is the only
// writer of these rows (operators' commands are noticed by a counter, and have the session read the rows again), so the counts are exact.
type Group struct {
	Key   Key
	Slot  int
	Since time.Time // of its first message, about: created or parked

	Credits Credits[int64] // by the sequence number of the row

	count     int // rows that are not dead, stored or about to be
	live      int // of those, in the lane now
	blockers  int // sent before the group was parked, and not concluded yet
	due       time.Time
	held      bool
	paused    bool // by an operator: nothing of it goes
	evicted   bool // parked to make room: may come back when an address does
	evictions int  // evictions in a row

	// While its rows are read, nothing is added to them, so what is read is all that there is.
	loading bool
	limit   int  // of the read
	again   bool // something was added all the same
}

// Member is the membership of a message in its parked group: it is part of the message, and only this package changes it.
type Member struct {
	stored   bool
	injected bool
	blocker  bool
}

// Stored reports whether the parked row of the message exists, or is about to.
func (m *Member) Stored() bool { return m.stored }

// Injected reports whether the message came out of the parking.
func (m *Member) Injected() bool { return m.injected }

// Blocks reports whether the group of the message was parked while the message was being sent.
func (m *Member) Blocks() bool { return m.blocker }

// State returns the state of the group.
func (g *Group) State() State {
	switch {
	case g.loading:
		return Loading
	case g.blockers > 0:
		return Blocked
	case g.live > 0:
		return InLane
	case g.count == 0:
		return Empty
	case g.held:
		return Held
	}
	return Waiting
}

func (g *Group) empty() bool { return g.count == 0 && g.live == 0 && g.blockers == 0 }

// Movable reports whether the first rows may be brought back when they are due.
func (g *Group) Movable() bool { return g.State() == Waiting && !g.paused }

// AllHere reports whether all rows of the group are in the lane, at the gate: then fresh messages may get
// in line behind them. Otherwise a busy group would never leave the parking.
func (g *Group) AllHere() bool { return g.State() == InLane && g.live == g.count && !g.paused }

// Limit is how many rows the last read asks for.
func (g *Group) Limit() int { return g.limit }

// Due is when the first rows are due; zero: they say when they are read.
func (g *Group) Due() time.Time { return g.due }

// Paused reports whether an operator has paused the group.
func (g *Group) Paused() bool { return g.paused }

// Evictions is how often in a row the group was parked to make room.
func (g *Group) Evictions() int { return g.evictions }

// Front takes the state of the message that is first now.
func (g *Group) Front(status adapters.ParkedStatus, due time.Time) {
	g.due, g.held = due, status == adapters.ParkedHeld
}

// Hold has the group wait for an operator: its first row is held.
func (g *Group) Hold() { g.held = true }

// Store counts the row of a message; it reports whether it is a new one.
func (g *Group) Store(m *Member) (added bool) {
	g.again = g.loading
	if added = !m.stored; added {
		m.stored = true
		g.count++
	}
	return added
}

// Block notes that a message that is being sent keeps the group where it is.
func (g *Group) Block(m *Member) {
	if !m.blocker {
		m.blocker = true
		g.blockers++
	}
}

// Loaded ends the read of the first rows. It reports whether something was added meanwhile: then what was read is too little.
func (g *Group) Loaded() (again bool) {
	again = g.again
	g.loading, g.again = false, false
	return again
}

// Enter notes that the row of a message is in the lane.
func (g *Group) Enter(m *Member) {
	m.stored, m.injected = true, true
	g.live++
}

// Leave notes that a message is no longer in the lane; its row stays. It reports whether the message had come out of the parking.
func (g *Group) Leave(m *Member) (injected bool) {
	if m.blocker {
		m.blocker = false
		g.blockers--
	}
	if injected = m.injected; injected {
		m.injected = false
		g.live--
	}
	return injected
}

// Settle notes that a message's row is settled or dead: the group moves. It reports whether there is a row.
func (g *Group) Settle(m *Member) (stored bool) {
	g.evicted, g.evictions = false, 0
	if stored = m.stored; stored {
		m.stored = false
		g.count--
	}
	return stored
}

// Recount takes over how many rows there are: an operator may have taken some away.
func (g *Group) Recount(n int) { g.count = n }

// Evict notes that the group was parked to make room.
func (g *Group) Evict() { g.evicted, g.evictions = true, g.evictions+1 }

// AwaitPoison notes whether the group waits for the poison destination, and may come back when that does.
func (g *Group) AwaitPoison(waits bool) { g.evicted = waits }

// Evicted reports whether the group was parked to make room, or waits for the poison destination.
func (g *Group) Evicted() bool { return g.evicted }

// readmit makes the group due if it is evicted.
func (g *Group) readmit() bool {
	if !g.evicted {
		return false
	}
	g.evicted, g.evictions, g.due = false, 0, time.Time{}
	return true
}

// found takes over what was read of the group after an operator's command. Of the rows in the lane the operator may have taken some away;
// they are counted until they end. Rows that are counted twice are noticed when there is nothing to load.
func (g *Group) found(l adapters.ParkedGroup) {
	g.count, g.due, g.held = l.Count+g.live+g.blockers, l.Due, l.Held
}

// Credits are attempts to be given back to messages of which only the rows are there, by row. The zero value has none.
type Credits[K comparable] map[K]int

// Give adds attempts of a row.
func (c *Credits[K]) Give(row K, n int) {
	if *c == nil {
		*c = Credits[K]{}
	}
	(*c)[row] += n
}

// Take removes and returns those of a row.
func (c Credits[K]) Take(row K) int {
	n := c[row]
	delete(c, row)
	return n
}
