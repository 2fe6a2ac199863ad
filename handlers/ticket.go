package handlers

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// state is where a ticket's message is, as the gate sees it.
type state uint8

const (
	away    state = iota // in its chain, between attempts, or held by the router
	here                 // waiting in Handle for its turn
	sending              // in a batch whose outcome is not known
	gone                 // delivered, left or withdrawn
)

// Ticket is a message in its group. The router embeds it in what it keeps per message. Its zero value is ready for [Gate.Enter],
// once: the gate may still read it when the message's chain has returned.
type Ticket struct {
	// Owner leads back from a withdrawn ticket to what embeds it.
	Owner any

	// All that follows is guarded by the gate's mutex.
	group     *group
	state     state
	delivered atomic.Bool // written with the mutex held
	failed    bool        // by the destination, and not reported yet
	among     bool        // others of that batch were delivered
	unwanted  bool        // left or withdrawn: nothing waits for its delivery any more
	stays     bool        // until it leaves: its group is not withdrawn over it
	recalled  bool        // its context ended, or its group was withdrawn, while it was being sent: it is not sent again from here
	since     int64       // when sending began, in nanoseconds of the gate's clock
	msg       *message.Message
	address   string
	limit     time.Duration
	wait      chan error // nil for a message that was offered
}

// SentAt is when the latest attempt at the destination began; zero: there was none. It may be called when [Ticket.Failed] may.
func (g *Gate) SentAt(t *Ticket) time.Time {
	if t.since == 0 {
		return time.Time{}
	}
	return g.epoch.Add(time.Duration(t.since))
}

// Delivered reports whether the destination took the message. It may be called at any time.
func (t *Ticket) Delivered() bool { return t.delivered.Load() }

// Failed reports whether it was the destination that failed the message, and which address that was. It reports this once: the next attempt
// may fail before it comes to the destination. Call it, and AmongDelivered, only after the message's chain or Withdraw has returned.
func (t *Ticket) Failed() (address string, failed bool) {
	failed, t.failed = t.failed, false
	return t.address, failed
}

// AmongDelivered reports whether others of the batch in which the destination failed the message were delivered: then the address works.
func (t *Ticket) AmongDelivered() bool { return t.among }

// group is the queue of the messages of one group that are not settled, in the order in which they entered. The rule of order: a
// message may be sent only at the front, or directly behind messages of the same batch.
type group struct {
	key   string
	queue []*Ticket // from head on; nil: has left from behind the front
	head  int       // the front, unless the queue is empty
	line  *pipe     // its front waits in line for that address
}

// push appends a ticket. Room at the beginning is used again if it is half of the whole, so that a long queue is not moved for
// every message.
func (g *group) push(t *Ticket) {
	t.group = g
	if g.head > 0 && g.head >= len(g.queue)/2 && len(g.queue) == cap(g.queue) {
		n := copy(g.queue, g.queue[g.head:])
		clear(g.queue[n:])
		g.queue, g.head = g.queue[:n], 0
	}
	g.queue = append(g.queue, t)
}

// front returns the first ticket that has not left, or nil.
func (g *group) front() *Ticket {
	if g.head == len(g.queue) {
		return nil
	}
	return g.queue[g.head]
}

// remove takes out a ticket, wherever it is: the front may not move for long, and what leaves behind it must not stay in memory.
func (g *group) remove(t *Ticket) {
	t.state = gone
	g.queue[g.head+slices.Index(g.queue[g.head:], t)] = nil
	for g.head < len(g.queue) && g.queue[g.head] == nil {
		g.head++
	}
	if g.head == len(g.queue) {
		g.queue, g.head = g.queue[:0], 0
	}
}

// keep removes all tickets but these.
func (g *group) keep(rest []*Ticket) {
	clear(g.queue)
	g.queue, g.head = append(g.queue[:0], rest...), 0
}

func (g *group) len() int {
	n := 0
	for _, t := range g.queue[g.head:] {
		if t != nil {
			n++
		}
	}
	return n
}

// run appends to batch the leading tickets that wait for the same address, as long as room admits them.
func (g *group) run(batch []*Ticket, room func(*Ticket) bool) []*Ticket {
	first := g.front()
	if first == nil {
		return batch
	}
	for _, t := range g.queue[g.head:] {
		if t == nil {
			continue
		}
		if t.state != here || t.address != first.address || !room(t) {
			break
		}
		batch = append(batch, t)
	}
	return batch
}
