package router

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// acceptMessage is acceptRow for a subscriber's message; its memory is taken.
func (s *session) acceptMessage(msg *message.Message, row *outbox.Row, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &item{
		session: s, slot: s.lane.slots[0], handle: msg, parent: msg.Context(),
		key:     s.route.key(row.Group),
		record:  s.recordOf(msg, row),
		attempt: outbox.Attempt{Route: s.route.Name, Lane: s.lane.name, Number: 1},
		cost:    cost,
	}
	it.Owner = it
	s.live += it.cost
	s.extra++
	s.origin.Enter(it)
	s.admit(it)
	s.proceed()
	return true
}

// recordOf is what the lane makes the message of. Of one that is too large only its
// names are kept, and what is wrong with it.
func (s *session) recordOf(msg *message.Message, row *outbox.Row) *record {
	if row.Err != nil {
		return &record{id: row.ID, kind: row.Type, position: row.Position, metadata: row.Metadata(s.lane.name)}
	}
	return &record{id: msg.UUID, kind: row.Type, position: row.Position, metadata: msg.Metadata, payload: msg.Payload, created: row.CreatedAt}
}
