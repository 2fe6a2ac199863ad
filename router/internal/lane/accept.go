package lane

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// Arrival is a row that the reader gives to a stream. A row that the route does not match only moves the cursor.
type Arrival struct {
	Stream  *Stream
	Row     *adapters.Row
	Matched bool
	Cost    int64
}

// Accept takes fetched rows in order. The reader has checked the room and taken the memory.
func (s *Session) Accept(rows []Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping {
		for _, a := range rows {
			s.Route.Memory.Give(a.Cost)
		}
		return
	}
	for _, a := range rows {
		index, wanted := s.progress.arrive(a)
		if !wanted {
			continue
		}
		it := newItem(s, s.Route.Key(a.Row.Group))
		it.row, it.stream, it.index, it.cost = a.Row, a.Stream, index, a.Cost
		s.progress.begin(it)
		s.admitLocked(it)
	}
	s.runner.proceedLocked()
}

// AcceptOne takes a claimed row or a subscriber's message into the lane, its memory being taken; false if it has to go back. Handle is
// by what the session's origin knows it: for a subscriber's message, the message.
func (s *Session) AcceptOne(row *adapters.Row, handle any, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping {
		return false
	}
	it := newItem(s, s.Route.Key(row.Group))
	it.Handle, it.cost = handle, cost
	if msg, ok := handle.(*message.Message); ok {
		it.parent, it.content = msg.Context(), s.Lane.contentOf(msg, row)
	} else {
		it.row = row
	}
	if !s.origin.Parks() && s.parking.paused.Has(it.key) {
		return false
	}
	failed, ok := s.origin.Enter(it)
	if !ok {
		return false
	}
	it.Attempt.Number += failed
	s.progress.begin(it)
	if s.origin.Parks() {
		s.admitLocked(it)
	} else {
		s.enterLocked(it)
	}
	s.runner.proceedLocked()
	return true
}

// contentOf returns the content of a subscriber's message. Of one that is too large it keeps the names and the error only.
func (l *Lane) contentOf(msg *message.Message, row *adapters.Row) *content {
	if row.Err != nil {
		return &content{id: row.ID, eventType: row.Type, position: row.Position, metadata: row.Metadata(l.Name)}
	}
	return &content{id: msg.UUID, eventType: row.Type, position: row.Position, metadata: msg.Metadata, payload: msg.Payload, created: row.CreatedAt}
}

// admitLocked puts a new item behind its group: at the gate, or in the parking. While the group's rows are being read, it waits.
//
// It also enters the lane if the last message of its group there came in behind all parked rows and has no row itself: after an operator's
// command a group may count more rows than there are, and in the parking the item would get ahead of that message.
func (s *Session) admitLocked(it *Item) {
	g := s.parking.of(it)
	if g != nil && !g.AllHere() {
		if last := s.gate.Last(it.key); g.Paused() || last == nil || owner(last).Stored() {
			if s.parking.join(it, g); g.State() != parkedgroup.Loading {
				s.progress.notify() // it takes room until it is written down
			}
			return
		}
	}
	s.enterLocked(it)
}

// enterLocked puts an item at the gate and has its chain run.
func (s *Session) enterLocked(it *Item) {
	s.arrivals++
	it.arrival = s.arrivals
	it.Attempt.Place = s.Route.shared.places.Add(1)
	s.gate.Enter(&it.Ticket, it.key)
	s.runner.pushLocked(it)
}

// MoveTo sets where the next read begins, after a read that yielded no more for the stream; whole: there was no more as of the cursor's
// snapshot. A session that stops has not taken the rows of the read, so its cursor must not move over them.
func (s *Stream) MoveTo(c adapters.Cursor, order uint64, drained, whole bool) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.session.runner.stopping {
		return
	}
	s.Fetched, s.Order, s.Drained, s.whole = c, order, drained, whole
	s.catchUp()
	s.forgetGone()
	if l := s.session.progress.ledger; l != nil {
		l.forget()
	}
}
