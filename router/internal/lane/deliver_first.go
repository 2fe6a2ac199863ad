package lane

import "github.com/outriderhq/outrider/handlers"

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
		if err := undecodable(msg); err != nil {
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
		owner(e.Ticket).outcome = e.Err
		e.Err = protect(s.lane.chain, e.Message)
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
