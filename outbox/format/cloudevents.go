package format

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

const (
	specVersion       = "1.0"
	contentTypeHeader = "content-type"
)

// Names of the CloudEvents attributes that carry what the specification has no
// attribute for. Attribute names are lower-case letters and digits only.
const (
	AttrPosition      = "outriderposition" // decimal, as text: CloudEvents integers have 32 bits
	AttrLane          = "outriderlane"
	AttrAggregateType = "outrideraggregatetype"
	AttrTenant        = "outridertenant"
	AttrTags          = "outridertags"    // a JSON object, as text
	AttrHeaders       = "outriderheaders" // structured mode: a JSON object, as text
	AttrPartitionKey  = "partitionkey"    // the message group; the partitioning extension

	// Of copies of dead messages; see [outbox.Death].
	AttrPoisonReason   = "outriderpoisonreason"
	AttrPoisonError    = "outriderpoisonerror"
	AttrPoisonAttempts = "outriderpoisonattempts" // decimal, as text
	AttrPoisonRoute    = "outriderpoisonroute"
	AttrPoisonAt       = "outriderpoisonat" // time of death, RFC 3339
)

// attributes maps metadata to attributes, in the order of structured mode.
var attributes = []struct{ meta, name string }{
	{outbox.MetaType, "type"},
	{outbox.MetaAggregateID, "subject"},
	{outbox.MetaOccurredAt, "time"},
	{outbox.MetaGroup, AttrPartitionKey},
	{outbox.MetaPosition, AttrPosition},
	{outbox.MetaLane, AttrLane},
	{outbox.MetaAggregateType, AttrAggregateType},
	{outbox.MetaTenant, AttrTenant},
	{outbox.MetaTags, AttrTags},
	{outbox.MetaPoisonReason, AttrPoisonReason},
	{outbox.MetaPoisonError, AttrPoisonError},
	{outbox.MetaPoisonAttempts, AttrPoisonAttempts},
	{outbox.MetaPoisonRoute, AttrPoisonRoute},
	{outbox.MetaPoisonAt, AttrPoisonAt},
}

// reserved are the names that a header of the application cannot have as an
// attribute of a structured event.
var reserved = func() map[string]bool {
	r := map[string]bool{
		"specversion": true, "id": true, "source": true, "datacontenttype": true,
		"dataschema": true, "data": true, "data_base64": true, AttrHeaders: true,
	}
	for _, a := range attributes {
		r[a.name] = true
	}
	return r
}()

// AppendCloudEvent appends msg as a structured JSON CloudEvent. A JSON payload
// becomes data, byte for byte; one of bytes becomes data_base64. Headers of the
// application whose names are attribute names (lower-case letters and digits:
// traceparent) become attributes; the others travel together in
// [AttrHeaders].
func AppendCloudEvent(dst []byte, source string, msg *message.Message) ([]byte, error) {
	if err := checkCloudEvent(msg); err != nil {
		return dst, err
	}
	binary := isBinary(msg)
	if !binary {
		if err := checkJSON(msg); err != nil {
			return dst, err
		}
	}
	dst = append(dst, `{"specversion":"1.0"`...)
	dst = appendMember(dst, "id", msg.UUID)
	dst = appendMember(dst, "source", source)
	for _, a := range attributes {
		if v, ok := msg.Metadata[a.meta]; ok {
			dst = appendMember(dst, a.name, v)
		}
	}
	dst = appendMember(dst, "datacontenttype", ContentType(msg))
	dst = appendHeaders(dst, msg.Metadata)
	if binary {
		dst = append(dst, `,"data_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, msg.Payload)
		return append(dst, `"}`...), nil
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, msg.Payload...)
	return append(dst, '}'), nil
}

// appendHeaders appends the application's own headers in a fixed order.
func appendHeaders(dst []byte, meta message.Metadata) []byte {
	var own []string
	for k := range meta {
		if !strings.HasPrefix(k, outbox.HeaderPrefix) && !strings.EqualFold(k, contentTypeHeader) {
			own = append(own, k)
		}
	}
	if own == nil {
		return dst
	}
	slices.Sort(own)
	var rest map[string]string
	for _, k := range own {
		if isAttributeName(k) && !reserved[k] {
			dst = appendMember(dst, k, meta[k])
			continue
		}
		if rest == nil {
			rest = make(map[string]string)
		}
		rest[k] = meta[k]
	}
	if rest != nil {
		object, _ := json.Marshal(rest) // a map of strings cannot fail to encode
		dst = appendMember(dst, AttrHeaders, string(object))
	}
	return dst
}

func isAttributeName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// checkCloudEvent refuses what lacks an attribute that CloudEvents requires.
func checkCloudEvent(msg *message.Message) error {
	if msg.UUID == "" {
		return outbox.Permanent(fmt.Errorf("a message of type %q has no id, which CloudEvents require", msg.Metadata[outbox.MetaType]))
	}
	if msg.Metadata[outbox.MetaType] == "" {
		return outbox.Permanent(fmt.Errorf(
			"message %s has no type, which CloudEvents require: set the metadata %q or use format raw", msg.UUID, outbox.MetaType))
	}
	return nil
}

// ContentType is the media type of the payload: what the application's header
// content-type says, or what we know.
func ContentType(msg *message.Message) string {
	if v := msg.Metadata[contentTypeHeader]; v != "" {
		return v
	}
	if v := msg.Metadata["Content-Type"]; v != "" {
		return v
	}
	if isBinary(msg) {
		return "application/octet-stream"
	}
	return "application/json"
}

func isBinary(msg *message.Message) bool {
	return msg.Metadata[outbox.MetaEncoding] == outbox.EncodingBytes
}
