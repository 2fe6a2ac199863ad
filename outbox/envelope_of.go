package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Type is an event type with the Go type of its payload, so that publishers and listeners agree on both:
//
//	const OrderCreated outbox.Type[Order] = "order.created"
//
//	envelope, err := OrderCreated.New(order).Group(order.Customer).Build()
//
//	listeners.Listen(registry, OrderCreated, func(ctx context.Context, order Order) error { ... })
type Type[P any] string

// New begins an envelope of this type with the payload as JSON, like [New] and [Builder.JSON].
func (t Type[P]) New(payload P) *Builder { return New(string(t)).JSON(payload) }

// EnvelopeOf returns the envelope of a message on a route, as published, including changes by middleware. The error names
// metadata that cannot be read; rows of Outrider's own table have none of these.
func EnvelopeOf(msg *message.Message) (Envelope, error) {
	meta := msg.Metadata
	e := Envelope{
		id: msg.UUID, typ: meta[MetaType], group: meta[MetaGroup],
		aggregateType: meta[MetaAggregateType], aggregateID: meta[MetaAggregateID], tenant: meta[MetaTenant],
		payload: msg.Payload, binary: meta[MetaEncoding] == EncodingBytes,
	}
	for k, v := range meta {
		if !strings.HasPrefix(k, HeaderPrefix) {
			if e.headers == nil {
				e.headers = make(map[string]string)
			}
			e.headers[k] = v
		}
	}
	if tags := meta[MetaTags]; tags != "" {
		if err := json.Unmarshal([]byte(tags), &e.tags); err != nil {
			return Envelope{}, fmt.Errorf("metadata %s: is not a JSON object of strings: %w", MetaTags, err)
		}
	}
	if at := meta[MetaOccurredAt]; at != "" {
		var err error
		if e.occurredAt, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return Envelope{}, fmt.Errorf("metadata %s: %w", MetaOccurredAt, err)
		}
	}
	return e, nil
}
