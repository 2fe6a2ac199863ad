package lane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// Lane is one slot of one route (or all slots, for order global): a Watermill
// handler. It does nothing by itself: a session works it while it is ours.
type Lane struct {
	route *Route
	Index int
	Name  string // "orders/07"; the handler's name
	Slots []int  // its cursor rows

	out      chan *message.Message
	chain    message.HandlerFunc // when delivering first; readable when composed is closed
	composed chan struct{}
	base     atomic.Pointer[context.Context] // what Watermill knows of the handler
	session  atomic.Pointer[Session]
}

// callBuffer lets the scheduler run ahead of Watermill's loop.
const callBuffer = 64

func newLane(r *Route, index int, slots []int) *Lane {
	return &Lane{
		route: r, Index: index, Slots: slots,
		Name: fmt.Sprintf("%s/%02d", r.Name, index),
		out:  make(chan *message.Message, callBuffer), composed: make(chan struct{}),
	}
}

// Session returns the session that works the lane; nil: it is not ours.
func (l *Lane) Session() *Session { return l.session.Load() }

// Rows are the lane's cursor rows in the state store.
func (l *Lane) Rows() []adapters.LaneRef {
	out := make([]adapters.LaneRef, len(l.Slots))
	for i, slot := range l.Slots {
		out[i] = adapters.LaneRef{Route: l.route.Name, Slot: slot}
	}
	return out
}

// Subscribe tells what Watermill puts around a lane's messages. It wraps subscribers
// to put the handler's name and topics into every message's context, at the
// price of a goroutine hop and several allocations per message. So the wrapped
// subscriber yields one probe, from whose context the values are taken once
// (see primed), and the lane's own messages answer with them.
func (l *Lane) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	probe := make(chan *message.Message, 1)
	probe <- message.NewMessage("probe", nil)
	close(probe)
	return probe, nil
}

// Close is part of message.Subscriber; the router closes out itself.
func (l *Lane) Close() error { return nil }

// primed is the outermost subscriber of a lane: it takes the probe that went
// through Watermill's decorators and then yields the lane's calls for workers.
type primed struct {
	message.Subscriber
	lanes map[string]*Lane // by name, which is the topic
}

// Subscribe implements message.Subscriber.
func (p primed) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := p.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	l := p.lanes[topic]
	for probe := range in {
		base := probe.Context() // for its values only
		l.base.Store(&base)
	}
	return l.out, nil
}

// handlerValue answers for the Watermill handler.
func (l *Lane) handlerValue(key any) any {
	if base := l.base.Load(); base != nil {
		return (*base).Value(key)
	}
	return nil
}

// handle is the innermost handler.
func (l *Lane) handle(msg *message.Message) error {
	it := itemOf(msg)
	if it == nil {
		return outbox.Permanent(fmt.Errorf("lane %s: a middleware replaced the context of message %s by one that "+
			"does not derive from it: use msg.SetContext(context.With...(msg.Context(), ...))", l.Name, msg.UUID))
	}
	if l.route.DeliverFirst {
		it.asked = true
		return it.outcome
	}
	if err := undecodable(msg); err != nil {
		return err
	}
	return it.Session.gate.Handle(&it.Ticket, msg)
}

// undecodable tells why a message is never sent whose row could not be decoded.
func undecodable(msg *message.Message) error {
	if reason := msg.Metadata[outbox.MetaBroken]; reason != "" {
		return outbox.Permanent(errors.New(reason))
	}
	return nil
}

// work is the outermost middleware of a lane. A message that Watermill hands to
// it is a call for a worker, which runs the chains of the lane's messages, one
// after the other, for as long as there are any: a goroutine, a stack and the
// fields of a log entry for every message would cost a fifth of the throughput.
//
// When delivering first there are no workers; who offers messages runs their chains.
func (l *Lane) work(h message.HandlerFunc) message.HandlerFunc {
	if l.route.DeliverFirst {
		l.chain = h
		close(l.composed)
	}
	return func(call *message.Message) ([]*message.Message, error) {
		s, _ := call.Context().Value(callKey).(*Session) // what calling puts there
		w := make(worker, 1)
		for it := s.runner.next(w); it != nil; it = s.runner.next(w) {
			s.conclude([]handlers.Ended{{Ticket: &it.Ticket, Err: runChain(h, it)}}, true)
		}
		return nil, nil
	}
}

// runChain runs an item's chain and returns what that returns, or its panic. To middleware
// every message is acked in the end: what becomes of it is the lane's business.
func runChain(h message.HandlerFunc, it *Item) error {
	if it.death != nil { // nothing is left to attempt: it is on its way to the poison destination
		return it.death
	}
	msg := it.newMessage()
	err := protect(h, msg)
	msg.Ack()
	return err
}

// protect turns a panic of the chain into an error.
func protect(h message.HandlerFunc, msg *message.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("the middleware", r)
		}
	}()
	_, err = h(msg)
	return err
}
