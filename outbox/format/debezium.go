package format

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/outbox"
)

// The headers that Debezium adds to every record, before those of the outbox event router.
const (
	debeziumPrefix    = "__debezium.context.connectorLogicalName"
	debeziumTask      = "__debezium.context.taskId"
	debeziumConnector = "__debezium.context.connectorName"
)

// DebeziumHeaders is the format of Debezium's outbox event router: the headers of the connector, whose topic.prefix is given, the header
// [RawID] with the event id, and the headers of the application by name. Nothing else of the metadata travels.
func DebeziumHeaders(prefix string) Headers {
	connector := []Header{{debeziumPrefix, prefix}, {debeziumTask, "0"}, {debeziumConnector, "postgresql"}}
	return func(dst []Header, msg *message.Message) ([]Header, error) {
		dst = append(dst, connector...)
		dst = append(dst, Header{RawID, msg.UUID})
		from := len(dst)
		for k, v := range msg.Metadata {
			if k != RawID && !strings.HasPrefix(k, outbox.HeaderPrefix) {
				dst = append(dst, Header{k, v})
			}
		}
		slices.SortFunc(dst[from:], func(a, b Header) int { return strings.Compare(a.Key, b.Key) })
		return dst, nil
	}
}

// The converters of a [DebeziumValue].
const (
	DebeziumString = "string" // the payload as it is: StringConverter, and BinaryDataConverter for bytes
	DebeziumJSON   = "json"   // JsonConverter without schemas: the payload as a JSON string
	DebeziumBase64 = "base64" // JsonConverter without schemas, for a payload of bytes
)

// DebeziumValue is how Debezium's outbox event router and its converter write a payload. The zero value changes nothing.
type DebeziumValue struct {
	Converter string // [DebeziumString], the default, [DebeziumJSON] or [DebeziumBase64]

	// Expand writes a payload that is a JSON object as an object, with [DebeziumJSON]: without the fields that are null or an empty
	// array, and without spaces. A payload whose types Debezium cannot tell remains a string.
	Expand bool

	// Tombstone turns an empty payload, or one of white space, into none.
	Tombstone bool
}

// Payload returns the value of a message; nil: none, which deletes the key in a compacted topic. The payload is not changed.
func (v DebeziumValue) Payload(msg *message.Message) []byte {
	p := []byte(msg.Payload)
	switch {
	case v.Tombstone && len(bytes.TrimFunc(p, func(r rune) bool { return r <= ' ' })) == 0:
		return nil
	case v.Converter == "" || v.Converter == DebeziumString:
		return p
	case p == nil:
		return []byte("null")
	case v.Converter == DebeziumBase64 || !utf8.Valid(p):
		return append(base64.StdEncoding.AppendEncode([]byte{'"'}, p), '"')
	}
	if v.Expand && bytes.HasPrefix(p, []byte{'{'}) && ValidJSON(p) {
		doc := gjson.ParseBytes(p)
		if s, err := shapeOf(doc); err == nil {
			if out, err := s.append(make([]byte, 0, len(p)), doc); err == nil {
				return out
			}
		}
	}
	return appendJackson(make([]byte, 0, len(p)+2), string(p))
}
