package lane

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
)

// If its middleware does nothing before a delivery, a chain waits for it only to see the outcome. Waiting is expensive: a goroutine, and a
// stack that is in no cache when it continues. So on a route with [Config].DeliverFirst messages are delivered first, and each runs through
// its chain when its outcome is known, one after the other on one stack.

// offerMessages brings queued messages to the gate, in a session that delivers first, until none is queued.
func (s *Session) offerMessages() {
	for items := s.runner.takeAll(); items != nil; items = s.runner.takeAll() {
		offered, broken, dead := toOffer(s.Route, items)
		s.gate.Offer(offered)
		if len(broken) > 0 {
			s.ended(broken)
		}
		for _, it := range dead {
			go s.conclude([]handlers.Ended{{Ticket: &it.Ticket, Err: it.death}}, true)
		}
	}
}

// toOffer makes the messages of items, for the gate. Broken messages cannot be sent and go to their chains; dead items only go to the
// poison destination.
func toOffer(r *Route, items []*Item) (offered []handlers.Offered, broken []handlers.Ended, dead []*Item) {
	offered = make([]handlers.Offered, 0, len(items))
	for _, it := range items {
		if it.death != nil {
			dead = append(dead, it)
			continue
		}
		msg := it.newMessage()
		err := undecodable(msg)
		if err == nil && len(r.Before) > 0 {
			err = prepare(r.Before, msg)
		}
		if err != nil {
			broken = append(broken, handlers.Ended{Ticket: &it.Ticket, Message: msg, Err: err})
			continue
		}
		offered = append(offered, handlers.Offered{Ticket: &it.Ticket, Message: msg})
	}
	return offered, broken, dead
}

// ended runs messages whose outcome is known through their chains and concludes them.
func (s *Session) ended(ended []handlers.Ended) {
	for i := range ended {
		e := &ended[i]
		it := owner(e.Ticket)
		it.outcome, it.asked = e.Err, false
		if e.Err = protect(s.Lane.chain, e.Message); !it.asked {
			e.Err = s.Route.notAsked(it, s.Lane.Name, e.Err)
		}
	}
	s.conclude(ended, false)
}

// prepare runs what layers do before a delivery.
func prepare(before []func(*message.Message), msg *message.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("the middleware", r)
		}
	}()
	for _, f := range before {
		f(msg)
	}
	return nil
}

// notAsked returns the result of a chain that did not call its handler although its layers are marked AfterDelivery: the outcome of the
// delivery counts, or a message that failed would be lost.
func (r *Route) notAsked(it *Item, lane string, err error) error {
	if _, panicked := errors.AsType[*adapters.PanicError](err); panicked {
		return err
	}
	r.unasked.Do(func() {
		r.Log().Warn("a middleware with the marker AfterDelivery did not call its handler: the outcome of the delivery counts; "+
			"remove the marker from middleware that filters messages (logged once)", "lane", lane, "id", it.id(), "error", err)
	})
	return it.outcome
}
