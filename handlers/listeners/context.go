package listeners

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

type messageKey struct{}

// delivery is the context of a listener: it ends with the delivery, and has the values of the message's own context too,
// such as its attempt and its span.
type delivery struct {
	context.Context
	msg *message.Message
}

func (d *delivery) Value(key any) any {
	if key == (messageKey{}) {
		return d.msg
	}
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.msg.Context().Value(key)
}

// EnvelopeOf returns the event that a listener was called with, from its context. Elsewhere, and for an event whose
// metadata cannot be read, ok is false.
func EnvelopeOf(ctx context.Context) (e outbox.Envelope, ok bool) {
	msg, _ := ctx.Value(messageKey{}).(*message.Message)
	if msg == nil {
		return outbox.Envelope{}, false
	}
	e, err := outbox.EnvelopeOf(msg)
	return e, err == nil
}

// decode returns what a listener takes, from a message.
func decode[P any](msg *message.Message) (payload P, err error) {
	binary := msg.Metadata[outbox.MetaEncoding] == outbox.EncodingBytes
	switch into := any(&payload).(type) {
	case *outbox.Envelope:
		*into, err = outbox.EnvelopeOf(msg)
		return payload, err
	case *[]byte:
		*into = append([]byte{}, msg.Payload...)
		return payload, nil
	case encoding.BinaryUnmarshaler:
		if binary {
			if err := into.UnmarshalBinary(msg.Payload); err != nil {
				return payload, fmt.Errorf("the payload cannot be decoded as %T: %w", payload, err)
			}
			return payload, nil
		}
	}
	if binary {
		return payload, fmt.Errorf("the payload is bytes and not JSON, and %T has no UnmarshalBinary", payload)
	}
	if err := json.Unmarshal(msg.Payload, &payload); err != nil {
		return payload, fmt.Errorf("the payload cannot be decoded as %T: %w", payload, err)
	}
	return payload, nil
}
