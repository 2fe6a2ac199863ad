package handlers

import (
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// state is where a ticket's message is, as the gate sees it.
type state uint8

const (
	away    state = iota // in its chain, between attempts, or held by the router
	here                 // waiting in Handle for its turn
	sending              // in a batch whose outcome is not known
	gone                 // left or withdrawn; a place to be skipped over
)

// Ticket is a message's place in its group. It is embedded in what the router
// keeps per message, and its zero value is ready for [Gate.Enter].
type Ticket struct {
	// Owner leads back from a withdrawn ticket to what embeds it.
	Owner any

	// All that follows is guarded by the gate's mutex.
	group     *group
	solo      group // the group of a message that wants no order
	soloSlot  [1]*Ticket
	state     state
	delivered bool
	failed    bool // by the destination, in the latest attempt
	withdrawn bool
	since     time.Time // when sending began
	msg       *message.Message
	address   string
	limit     time.Duration
	wait      chan error
}

// waits recycles the channels on which chains wait for their outcome. A
// channel goes back only after its one value was received.
var waits = sync.Pool{New: func() any { return make(chan error, 1) }}

// wake ends the wait of the ticket's chain.
func (t *Ticket) wake(err error) {
	w := t.wait
	t.wait, t.msg = nil, nil
	w <- err
}

// group is the queue of the messages of one group that are not settled, in
// the order in which they entered. The whole rule of order is here: a message
// may be sent only when it is at the front, or directly behind messages that go
// out before it in the same batch.
type group struct {
	key     string
	queue   []*Ticket
	head    int
	sending int  // tickets in the one outstanding batch of the group
	queued  bool // in the ready list of a pipe
}

// push appends a ticket.
func (q *group) push(t *Ticket) {
	t.group = q
	if q.head > 0 && len(q.queue) == cap(q.queue) {
		n := copy(q.queue, q.queue[q.head:])
		clear(q.queue[n:])
		q.queue, q.head = q.queue[:n], 0
	}
	q.queue = append(q.queue, t)
}

// front returns the first ticket that has not left, or nil.
func (q *group) front() *Ticket {
	for q.head < len(q.queue) {
		if t := q.queue[q.head]; t.state != gone {
			return t
		}
		q.queue[q.head] = nil
		q.head++
	}
	q.queue, q.head = q.queue[:0], 0
	return nil
}

// run appends to batch the leading tickets that wait for the same address, as
// long as room admits them.
func (q *group) run(batch []*Ticket, room func(*Ticket) bool) []*Ticket {
	first := q.front()
	if first == nil {
		return batch
	}
	for _, t := range q.queue[q.head:] {
		if t.state == gone {
			continue
		}
		if t.state != here || t.address != first.address || !room(t) {
			break
		}
		batch = append(batch, t)
	}
	return batch
}
