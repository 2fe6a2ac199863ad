package adapters

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// NewMessage builds the Watermill message that middleware and destinations
// see. The payload is shared with the row, not copied: middleware that wants
// another payload sets a new slice and leaves the bytes of the old one alone.
func NewMessage(row *Row, lane string) *message.Message {
	msg := message.NewMessage(row.ID, row.Payload)
	msg.Metadata = row.Metadata(lane)
	return msg
}

// Metadata returns the metadata of the row's message, as a map of its own. The
// texts that are made for it share one allocation: this runs once per message.
func (r *Row) Metadata(lane string) message.Metadata {
	meta := make(message.Metadata)
	for k, v := range r.Headers {
		if !strings.HasPrefix(k, outbox.HeaderPrefix) {
			meta[k] = v
		}
	}
	var room [64]byte
	made := strconv.AppendInt(room[:0], r.Position, 10)
	digits := len(made)
	if !r.OccurredAt.IsZero() {
		made = r.OccurredAt.UTC().AppendFormat(made, time.RFC3339Nano)
	}
	texts := string(made)
	meta[outbox.MetaType] = r.Type
	meta[outbox.MetaPosition] = texts[:digits]
	meta[outbox.MetaLane] = lane
	setNonEmpty(meta, outbox.MetaKind, r.Kind)
	setNonEmpty(meta, outbox.MetaGroup, r.Group)
	setNonEmpty(meta, outbox.MetaAggregateType, r.AggregateType)
	setNonEmpty(meta, outbox.MetaAggregateID, r.AggregateID)
	setNonEmpty(meta, outbox.MetaTenant, r.Tenant)
	setNonEmpty(meta, outbox.MetaOccurredAt, texts[digits:])
	if r.Err != nil {
		meta[outbox.MetaBroken] = shorten.Text(r.Err.Error())
	}
	if r.Binary {
		meta[outbox.MetaEncoding] = outbox.EncodingBytes
	}
	if len(r.Tags) > 0 {
		// A map of strings cannot fail to encode.
		tags, _ := json.Marshal(r.Tags)
		meta[outbox.MetaTags] = string(tags)
	}
	return meta
}

func setNonEmpty(meta message.Metadata, key, value string) {
	if value != "" {
		meta[key] = value
	}
}

// PayloadOf returns a message's payload for a destination. An empty payload is
// never nil, because some receivers treat nil as none (for Kafka it deletes the
// key).
func PayloadOf(msg *message.Message) []byte {
	if msg.Payload == nil {
		return []byte{}
	}
	return msg.Payload
}
