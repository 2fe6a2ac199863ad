package lane

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// AcceptMessage is acceptRow for a subscriber's message; its memory is taken.
func (s *Session) AcceptMessage(msg *message.Message, row *adapters.Row, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &Item{
		Session: s, slot: s.lane.Slots[0], Handle: msg, parent: msg.Context(),
		key:     s.route.Key(row.Group),
		record:  s.recordOf(msg, row),
		Attempt: outbox.Attempt{Route: s.route.Name, Lane: s.lane.Name, Number: 1},
		cost:    cost,
	}
	it.Owner = it
	s.live += it.cost
	s.extra++
	s.origin.Enter(it)
	s.admit(it)
	s.runner.proceed()
	return true
}

// recordOf is what the lane makes the message of. Of one that is too large only its
// names are kept, and what is wrong with it.
func (s *Session) recordOf(msg *message.Message, row *adapters.Row) *record {
	if row.Err != nil {
		return &record{id: row.ID, kind: row.Type, position: row.Position, metadata: row.Metadata(s.lane.Name)}
	}
	return &record{id: msg.UUID, kind: row.Type, position: row.Position, metadata: msg.Metadata, payload: msg.Payload, created: row.CreatedAt}
}
