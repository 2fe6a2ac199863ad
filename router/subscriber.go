package router

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// listener feeds a route from a Watermill Subscriber. There is no cursor: a
// message is acked when it was delivered or skipped, or when its parked row is
// durable, and nacked when it was released.
type listener struct {
	route *route
	wake  chan struct{} // a lane may have room again
}

// run takes messages until ctx ends or the subscriber closes its channel. The
// subscription lasts as long as listening does.
func (l *listener) run(ctx, listening context.Context) error {
	msgs, err := l.route.Subscriber.Subscribe(listening, l.route.Topic)
	if err != nil {
		return fmt.Errorf("route %q: subscribe to %q: %w", l.route.Name, l.route.Topic, err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg, ok := <-msgs:
			if !ok {
				return nil
			}
			if !l.accept(ctx, msg) {
				msg.Nack()
			}
		}
	}
}

// accept gives the message to its lane, waiting for room; false when it was not
// taken.
func (l *listener) accept(ctx context.Context, msg *message.Message) bool {
	row := rowOf(msg)
	if !l.route.Match(row) {
		l.route.stats.skip("unmatched")
		msg.Ack()
		return true
	}
	lane := l.route.lanes[outbox.SlotOf(l.route.key(row.Group), row.ID)]
	cost := int64(row.Size()) + itemOverhead
	for {
		if s := lane.session.Load(); s != nil {
			room := s.room() > 0
			if room && l.route.share.take(cost) {
				if s.acceptMessage(msg, row, cost) {
					return true
				}
				l.route.share.give(cost)
				return false
			}
			s.relieve(time.Now(), room) // with room it is memory that is spent
		}
		timer := after(releaseDelay)
		select {
		case <-l.wake:
		case <-timer.C: // the lane is not ours yet
		case <-ctx.Done():
			timer.stop()
			return false
		}
		timer.stop()
	}
}

// acceptMessage is acceptRow for a subscriber's message; its memory is taken.
func (s *session) acceptMessage(msg *message.Message, row *outbox.Row, cost int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	it := &item{
		lane: s.lane, session: s, slot: s.lane.slots[0], source: msg, parent: msg.Context(),
		key: s.route.key(row.Group),
		record: &record{id: msg.UUID, kind: row.Type, position: row.Position, metadata: msg.Metadata,
			payload: msg.Payload, created: row.CreatedAt},
		attempt: outbox.Attempt{Route: s.route.Name, Lane: s.lane.name, Number: 1},
		cost:    cost,
	}
	it.Owner = it
	s.live += it.cost
	s.extra++
	s.sources[it] = struct{}{}
	s.admit(it)
	s.wakeEmitter()
	return true
}

// rowOf reads a message's metadata as the fields of a row, for matching.
func rowOf(msg *message.Message) *outbox.Row {
	m := msg.Metadata
	row := &outbox.Row{
		ID: msg.UUID, Type: m[outbox.MetaType], Group: m[outbox.MetaGroup],
		AggregateType: m[outbox.MetaAggregateType], AggregateID: m[outbox.MetaAggregateID],
		Tenant: m[outbox.MetaTenant], Headers: m, Payload: msg.Payload,
		Binary: m[outbox.MetaEncoding] == outbox.EncodingBytes,
	}
	// Fields that other systems wrote differently are left empty: they are
	// there to be matched, and a message is delivered with the metadata it has.
	row.Position, _ = strconv.ParseInt(m[outbox.MetaPosition], 10, 64)
	row.OccurredAt, _ = time.Parse(time.RFC3339Nano, m[outbox.MetaOccurredAt])
	if tags := m[outbox.MetaTags]; tags != "" {
		if json.Unmarshal([]byte(tags), &row.Tags) != nil {
			row.Tags = nil
		}
	}
	return row
}
