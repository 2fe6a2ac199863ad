package lane

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// Arrival is a row that the reader gives to a stream. A row that the route does
// not match only moves the cursor.
type Arrival struct {
	Stream  *Stream
	Row     *adapters.Row
	Matched bool
	Cost    int64
}

// Accept takes fetched rows in order. The reader has made sure of the room and
// taken the memory.
func (s *Session) Accept(rows []Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping {
		for _, a := range rows {
			s.Route.Share.Give(a.Cost)
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

// AcceptOne takes a claimed row or a subscriber's message into the lane, its memory being
// taken; false when it has to go back. Handle is what the session's origin knows it by; a
// message's is the message itself.
func (s *Session) AcceptOne(row *adapters.Row, handle any, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping {
		return false
	}
	it := newItem(s, s.Route.Key(row.Group))
	it.Handle, it.cost = handle, cost
	if msg, ok := handle.(*message.Message); ok {
		it.parent, it.record = msg.Context(), s.Lane.recordOf(msg, row)
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

// recordOf is what the lane makes the message of. Of one that is too large only its
// names are kept, and what is wrong with it.
func (l *Lane) recordOf(msg *message.Message, row *adapters.Row) *record {
	if row.Err != nil {
		return &record{id: row.ID, kind: row.Type, position: row.Position, metadata: row.Metadata(l.Name)}
	}
	return &record{id: msg.UUID, kind: row.Type, position: row.Position, metadata: msg.Metadata, payload: msg.Payload, created: row.CreatedAt}
}

// admitLocked gives a new item its place: at the gate or, behind its group, in the
// parking. While the group's rows are being read it waits for what they are.
//
// It also enters the lane when the last message of its group there came in behind all of
// the parked rows and has none itself: after an operator's command a group may count more
// rows than there are, and in the parking the next one would get its place before it.
func (s *Session) admitLocked(it *Item) {
	g := s.parking.of(it)
	if g != nil && !g.AllHere() {
		if last := s.gate.Last(it.key); g.Paused() || last == nil || owner(last).Stored() {
			if s.parking.join(it, g); g.State() != parkedgroup.Loading {
				s.progress.note() // it takes room until it is written down
			}
			return
		}
	}
	s.enterLocked(it)
}

// enterLocked gives an item its place at the gate and has its chain run.
func (s *Session) enterLocked(it *Item) {
	s.arrivals++
	it.arrival = s.arrivals
	it.Attempt.Place = s.Route.shared.places.Add(1)
	s.gate.Enter(&it.Ticket, it.key)
	s.runner.pushLocked(it)
}

// MoveTo sets where the next read begins, after a read that yielded no
// more for it; whole: there was no more as of the cursor's snapshot. A session that stops has not taken what the read yielded, and must
// not pass it.
func (s *Stream) MoveTo(c adapters.Cursor, order uint64, drained, whole bool) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.session.runner.stopping {
		return
	}
	s.Fetched, s.Order, s.Drained, s.whole = c, order, drained, whole
	s.catchUp()
	s.forgetGone()
}
