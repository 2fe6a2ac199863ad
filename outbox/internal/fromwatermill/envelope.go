// Package fromwatermill makes the statement that writes Watermill messages into Outrider's own table, for the publishers of the
// versions of watermill-sql.
package fromwatermill

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// InsertQuery returns the statement that writes the messages in their order,
// all or none. An error names the message and all its mistakes.
func InsertQuery(cfg outbox.ClientConfig, topic string, msgs message.Messages) (query string, args []any, err error) {
	client, err := outbox.NewClient(cfg)
	if err != nil {
		return "", nil, err
	}
	envelopes := make([]outbox.Envelope, len(msgs))
	for i, msg := range msgs {
		if envelopes[i], err = envelope(topic, msg); err != nil {
			return "", nil, fmt.Errorf("wmsql: message %d of %d: %w", i+1, len(msgs), err)
		}
	}
	return client.InsertQuery(envelopes...)
}

// envelope converts a Watermill message to what the outbox client publishes.
func envelope(topic string, msg *message.Message) (outbox.Envelope, error) {
	if msg == nil {
		return outbox.Envelope{}, errors.New("the message is nil")
	}
	eventType := msg.Metadata.Get(outbox.MetaType)
	if eventType == "" {
		eventType = topic
	}
	b := outbox.New(eventType).
		ID(msg.UUID).
		Group(msg.Metadata.Get(outbox.MetaGroup)).
		Aggregate(msg.Metadata.Get(outbox.MetaAggregateType), msg.Metadata.Get(outbox.MetaAggregateID)).
		Tenant(msg.Metadata.Get(outbox.MetaTenant))

	addHeaders(b, msg)
	problems := []error{addTags(b, msg), addOccurredAt(b, msg), addPayload(b, msg)}
	e, err := b.Build()
	if err := errors.Join(append(problems, err)...); err != nil {
		return outbox.Envelope{}, err
	}
	return e, nil
}

// addHeaders takes over all metadata that is no column. A key with Outrider's
// prefix that is not known here is then refused by Build, not lost.
func addHeaders(b *outbox.Builder, msg *message.Message) {
	for k, v := range msg.Metadata {
		switch k {
		case outbox.MetaType, outbox.MetaGroup, outbox.MetaAggregateType, outbox.MetaAggregateID, outbox.MetaTenant,
			outbox.MetaTags, outbox.MetaOccurredAt, outbox.MetaEncoding: // become columns
		case outbox.MetaPosition, outbox.MetaLane: // of an earlier journey
		default:
			b.Header(k, v)
		}
	}
}

func addTags(b *outbox.Builder, msg *message.Message) error {
	text := msg.Metadata.Get(outbox.MetaTags)
	if text == "" {
		return nil
	}
	var tags map[string]string
	if err := json.Unmarshal([]byte(text), &tags); err != nil {
		return fmt.Errorf("metadata %s: must be a JSON object of strings: %w", outbox.MetaTags, err)
	}
	for k, v := range tags {
		b.Tag(k, v)
	}
	return nil
}

func addOccurredAt(b *outbox.Builder, msg *message.Message) error {
	text := msg.Metadata.Get(outbox.MetaOccurredAt)
	if text == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("metadata %s: must be a time in RFC 3339, like %q", outbox.MetaOccurredAt, "2026-01-02T15:04:05.123456Z")
	}
	b.OccurredAt(t)
	return nil
}

func addPayload(b *outbox.Builder, msg *message.Message) error {
	encoding := msg.Metadata.Get(outbox.MetaEncoding)
	if encoding != "" && encoding != outbox.EncodingBytes {
		b.Bytes(nil)
		return fmt.Errorf("metadata %s: must be %q or absent", outbox.MetaEncoding, outbox.EncodingBytes)
	}
	if encoding == outbox.EncodingBytes || len(msg.Payload) > outbox.MaxPayloadBytes || outbox.CheckJSON(msg.Payload) != nil {
		b.Bytes(msg.Payload)
	} else {
		b.RawJSON(msg.Payload)
	}
	return nil
}
