package router

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// A chain waits for the delivery of its message only so that it can look at the
// outcome, if its middleware does nothing before. Waiting is what costs: a
// goroutine, and a stack that is in no cache when it goes on. So on a route with
// [Route.Hindsight] messages are delivered first, and each runs through its chain
// when its outcome is known, one after the other on one stack.

// offerMessages brings what is queued to the gate. It is what a session with
// hindsight has instead of workers and their foreman.
func (s *session) offerMessages() {
	defer s.wg.Done()
	select {
	case <-s.lane.composed: // what failed at once runs through its chain
	case <-s.ctx.Done():
		return
	}
	for {
		s.offer(s.queued())
		select {
		case <-s.called:
		case <-s.ctx.Done():
			return
		}
	}
}

// queued takes what is queued and counts it as under way.
func (s *session) queued() []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.queue[:0] // it is ours from here on
	for _, it := range s.queue {
		if it.phase == running {
			s.begin()
			out = append(out, it)
		}
	}
	s.queue = nil
	return out
}

// offer brings messages to the gate, or, those that cannot be sent, to their
// chains.
func (s *session) offer(items []*item) {
	offered := make([]handlers.Offered, 0, len(items))
	var ended []handlers.Ended
	for _, it := range items {
		if it.death != nil { // nothing is left to attempt: it is on its way to the poison destination
			go s.conclude(it, it.death)
			continue
		}
		msg := it.newMessage()
		address, err := s.destined(msg)
		if err != nil {
			ended = append(ended, handlers.Ended{Ticket: &it.Ticket, Message: msg, Err: err})
			continue
		}
		offered = append(offered, handlers.Offered{Ticket: &it.Ticket, Message: msg, Address: address})
	}
	if len(offered) > 0 {
		s.gate.Offer(offered)
	}
	if len(ended) > 0 {
		s.lookBack(ended)
	}
}

// destined returns the message's address, or why it has none and is never sent.
func (s *session) destined(msg *message.Message) (address string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the destination panicked when it was asked for an address: %v\n%s", r, debug.Stack())
		}
	}()
	if reason := msg.Metadata[outbox.MetaBroken]; reason != "" {
		return "", outbox.Permanent(errors.New(reason))
	}
	if address, err = s.route.Destination.Address(msg); err != nil {
		return "", outbox.Permanent(fmt.Errorf("address of message %s: %w", msg.UUID, err))
	}
	return address, nil
}

// lookBack runs messages whose outcome is known through their chains and
// concludes them.
func (s *session) lookBack(ended []handlers.Ended) {
	chain := s.lane.chain
	for i := range ended {
		e := &ended[i]
		owner(e.Ticket).outcome = e.Err
		e.Err = protect(chain, e.Message)
	}
	var follow []followUp
	var dying []*item
	s.mu.Lock()
	for _, e := range ended {
		it := owner(e.Ticket)
		f := s.judge(it, e.Err)
		if f.dying {
			dying = append(dying, it)
		}
		if !f.empty() {
			follow = append(follow, f)
		}
	}
	s.mu.Unlock()
	for _, f := range follow {
		f.run()
	}
	for _, it := range dying {
		go s.sendToPoison(it)
	}
}
