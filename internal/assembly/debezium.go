package assembly

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox/format"
)

// debeziumValue writes payloads as Debezium does. It is the innermost layer of a route, so that it serves every destination, and limits of
// batches count what is sent.
type debeziumValue format.DebeziumValue

// Middleware returns the handler with another payload, which the message has only meanwhile.
func (v debeziumValue) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		stored := msg.Payload
		defer func() { msg.Payload = stored }()
		msg.Payload = format.DebeziumValue(v).Payload(msg)
		return h(msg)
	}
}
