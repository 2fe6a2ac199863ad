package outbox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Metadata keys of a message on a route. The message's UUID is the event id.
// The application's own headers keep their names; [HeaderPrefix] is ours alone
// and refused at publish, so the two cannot collide.
const (
	// HeaderPrefix begins every metadata key that Outrider sets.
	HeaderPrefix = "outrider_"

	MetaType          = HeaderPrefix + "type"           // event type, for example "order.created"
	MetaKind          = HeaderPrefix + "kind"           // kind of the row's table; absent when the source has one kind only
	MetaGroup         = HeaderPrefix + "group"          // message group; absent: no order wanted
	MetaAggregateType = HeaderPrefix + "aggregate_type" // absent when empty
	MetaAggregateID   = HeaderPrefix + "aggregate_id"   // absent when empty
	MetaTenant        = HeaderPrefix + "tenant"         // absent when empty
	MetaTags          = HeaderPrefix + "tags"           // a JSON object of strings; absent when empty
	MetaOccurredAt    = HeaderPrefix + "occurred_at"    // RFC 3339 with nanoseconds, UTC
	MetaPosition      = HeaderPrefix + "position"       // decimal position in the source, to compare across redeliveries
	MetaLane          = HeaderPrefix + "lane"           // "route/slot", for example "orders/07"
	MetaEncoding      = HeaderPrefix + "encoding"       // EncodingBytes; absent: the payload is JSON
	MetaBroken        = HeaderPrefix + "broken"         // why the row cannot be decoded; such a message is never delivered

	// What a copy of a dead message carries to the poison destination, beside
	// everything else; see [Death].
	MetaPoisonReason   = HeaderPrefix + "poison_reason"   // DeathExhausted or DeathPermanent
	MetaPoisonError    = HeaderPrefix + "poison_error"    // the last error, in one line
	MetaPoisonAttempts = HeaderPrefix + "poison_attempts" // decimal; absent when nobody counted
	MetaPoisonRoute    = HeaderPrefix + "poison_route"    // name of the route; outside of one, of the Watermill handler
	MetaPoisonAt       = HeaderPrefix + "poison_at"       // time of death, RFC 3339 with nanoseconds, UTC
)

// EncodingBytes is the value of [MetaEncoding] for payloads that are not JSON.
const EncodingBytes = "bytes"

// PayloadOf returns a message's payload, for a destination to send: an empty one is
// never nil, which some receivers take for none (to Kafka it deletes the key).
func PayloadOf(msg *message.Message) []byte {
	if msg.Payload == nil {
		return []byte{}
	}
	return msg.Payload
}

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
		if !strings.HasPrefix(k, HeaderPrefix) {
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
	meta[MetaType] = r.Type
	meta[MetaPosition] = texts[:digits]
	meta[MetaLane] = lane
	setNonEmpty(meta, MetaKind, r.Kind)
	setNonEmpty(meta, MetaGroup, r.Group)
	setNonEmpty(meta, MetaAggregateType, r.AggregateType)
	setNonEmpty(meta, MetaAggregateID, r.AggregateID)
	setNonEmpty(meta, MetaTenant, r.Tenant)
	setNonEmpty(meta, MetaOccurredAt, texts[digits:])
	if r.Err != nil {
		meta[MetaBroken] = Cut(r.Err.Error())
	}
	if r.Binary {
		meta[MetaEncoding] = EncodingBytes
	}
	if len(r.Tags) > 0 {
		// A map of strings cannot fail to encode.
		tags, _ := json.Marshal(r.Tags)
		meta[MetaTags] = string(tags)
	}
	return meta
}

func setNonEmpty(meta message.Metadata, key, value string) {
	if value != "" {
		meta[key] = value
	}
}
