package lane

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
)

// A chain waits for the delivery of its message only so that it can look at the
// outcome, if its middleware does nothing before. Waiting is what costs: a
// goroutine, and a stack that is in no cache when it goes on. So on a route with
// [Route.DeliverFirst] messages are delivered first, and each runs through its chain
// when its outcome is known, one after the other on one stack.

// offerMessages brings what is queued to the gate. A session that delivers first has it
// instead of workers and their scheduler.
func (s *Session) offerMessages() {
	defer s.wg.Done()
	select {
	case <-s.lane.composed: // what failed at once runs through its chain
	case <-s.ctx.Done():
		return
	}
	for {
		s.offer(s.runner.takeAll())
		select {
		case <-s.runner.called:
		case <-s.ctx.Done():
			return
		}
	}
}

// offer brings messages to the gate, or, those that cannot be sent, to their
// chains.
func (s *Session) offer(items []*Item) {
	offered := make([]handlers.Offered, 0, len(items))
	var broken []handlers.Ended
	for _, it := range items {
		if it.death != nil { // nothing is left to attempt: it is on its way to the poison destination
			go s.conclude(it, it.death)
			continue
		}
		msg := it.newMessage()
		err := undecodable(msg)
		if err == nil && len(s.route.Before) > 0 {
			err = prepare(s.route.Before, msg)
		}
		if err != nil {
			broken = append(broken, handlers.Ended{Ticket: &it.Ticket, Message: msg, Err: err})
			continue
		}
		offered = append(offered, handlers.Offered{Ticket: &it.Ticket, Message: msg})
	}
	s.gate.Offer(offered)
	if len(broken) > 0 {
		s.runAfterDelivery(broken)
	}
}

// runAfterDelivery runs messages whose outcome is known through their chains and
// concludes them.
func (s *Session) runAfterDelivery(ended []handlers.Ended) {
	for i := range ended {
		e := &ended[i]
		it := owner(e.Ticket)
		it.outcome, it.asked = e.Err, false
		if e.Err = protect(s.lane.chain, e.Message); !it.asked {
			e.Err = s.unasked(it, e.Err)
		}
	}
	var follow []followUp
	s.mu.Lock()
	for _, e := range ended {
		if f := s.judge(owner(e.Ticket), e.Err); !f.empty() {
			follow = append(follow, f)
		}
	}
	s.mu.Unlock()
	for _, f := range follow {
		f.run()
		if f.dying != nil {
			go s.sendToPoison(f.dying)
		}
	}
}

// prepare lets middleware that only looks at results do what comes before a delivery.
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

// unasked is what a chain came to that did not call its handler although it was said
// to only look at results: the outcome counts, or a message that failed would be lost.
func (s *Session) unasked(it *Item, err error) error {
	if _, panicked := errors.AsType[*adapters.PanicError](err); panicked {
		return err
	}
	s.route.unasked.Do(func() {
		s.route.Log().Warn("a middleware with the marker AfterDelivery did not call its handler: the outcome of the delivery counts; "+
			"remove the marker from middleware that filters messages (logged once)", "lane", s.lane.Name, "id", it.id(), "error", err)
	})
	return it.outcome
}
