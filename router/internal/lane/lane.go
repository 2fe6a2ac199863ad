package lane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Lane is one slot of one route (or all slots, for order global): a Watermill handler. A session works it while it is ours.
type Lane struct {
	route *Route
	Index int
	Name  string // "orders/07"; the handler's name
	Slots []int  // its cursor rows

	chain   message.HandlerFunc // the middleware around handle; by Compose
	base    context.Context     // of Watermill's handler; by Compose
	session atomic.Pointer[Session]
}

func newLane(r *Route, index int, slots []int) *Lane {
	return &Lane{route: r, Index: index, Slots: slots, Name: fmt.Sprintf("%s/%02d", r.Name, index)}
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

// undecodable returns the error of a message whose row could not be decoded: it is never sent.
func undecodable(msg *message.Message) error {
	if reason := msg.Metadata[outbox.MetaBroken]; reason != "" {
		return outbox.Permanent(errors.New(reason))
	}
	return nil
}

// run runs an item's chain and returns its error, or its panic. For middleware every message is acked in the end.
func (l *Lane) run(it *Item) error {
	if it.death != nil { // nothing is left to attempt: it is on its way to the poison destination
		return it.death
	}
	msg := it.newMessage()
	err := protect(l.chain, msg)
	msg.Ack()
	return err
}

func protect(h message.HandlerFunc, msg *message.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("the middleware", r)
		}
	}()
	_, err = h(msg)
	return err
}

// Compose has Watermill's router compose the handler of each lane: the route's middleware around [Lane.handle]. Sessions run that handler
// themselves. Watermill would start a goroutine with a map of log fields for each message, which was a fifth of a message's cost, and a
// quarter of its allocations.
//
// Each lane subscribes to one message, a probe. The outermost middleware keeps the handler and the probe's context, which has Watermill's
// values. Each route has a router to itself: a router copies the middleware of all its handlers for each of them, which took minutes for the
// lanes of a thousand routes.
func Compose(routes []*Route) error {
	for _, rt := range routes {
		if err := rt.compose(); err != nil {
			return fmt.Errorf("compose the handlers of route %s: %w", rt.Name, err)
		}
	}
	return nil
}

func (r *Route) compose() error {
	wm, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	for _, l := range r.Lanes {
		h := wm.AddConsumerHandler(l.Name, l.Name, l, l.handle)
		h.AddMiddleware(l.compose)
		h.AddMiddleware(r.Middleware...)
	}
	return wm.Run(context.Background()) // it ends when all probes were handled
}

// compose is the outermost middleware of a lane.
func (l *Lane) compose(h message.HandlerFunc) message.HandlerFunc {
	l.chain = h
	return func(probe *message.Message) ([]*message.Message, error) {
		l.base = probe.Context()
		return nil, nil
	}
}

// Subscribe implements message.Subscriber.
func (l *Lane) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	probe := make(chan *message.Message, 1)
	probe <- message.NewMessage("probe", nil)
	close(probe)
	return probe, nil
}

// Close implements message.Subscriber.
func (l *Lane) Close() error { return nil }
