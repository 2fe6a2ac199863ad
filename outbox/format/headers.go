package format

import (
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// Header is one header of a message. Its strings are shared with the message.
type Header struct {
	Key   string
	Value string
}

// Headers appends the headers of msg to dst. The order of
// the headers after the first few is not fixed. A Headers may be called
// concurrently.
type Headers func(dst []Header, msg *message.Message) ([]Header, error)

// Names of the headers of the raw format that are not metadata keys.
const (
	RawID   = "id"
	RawType = "type"
)

// RawHeaders is the raw format: header [RawID] with the event id, [RawType]
// with the event type (when there is one), and the rest of the metadata under
// its own keys. A header of the application that is called like one of the two
// gives way: what identifies the event has one meaning for every consumer.
func RawHeaders(dst []Header, msg *message.Message) ([]Header, error) {
	dst = append(dst, Header{RawID, msg.UUID})
	for k, v := range msg.Metadata {
		switch k {
		case RawID, RawType:
		case outbox.MetaType:
			dst = append(dst, Header{RawType, v})
		default:
			dst = append(dst, Header{k, v})
		}
	}
	return dst, nil
}

// WatermillHeaders is the format of Watermill's adapters that keep the message
// UUID in a header: idKey holds the UUID, and every metadata entry is a header.
// Metadata that itself uses idKey is an error, as it is to those adapters.
func WatermillHeaders(idKey string) Headers {
	return func(dst []Header, msg *message.Message) ([]Header, error) {
		dst = append(dst, Header{idKey, msg.UUID})
		for k, v := range msg.Metadata {
			if k == idKey {
				return nil, outbox.Permanent(fmt.Errorf(
					"message %s has a header %q, which Watermill keeps for the message id: rename the header", msg.UUID, idKey))
			}
			dst = append(dst, Header{k, v})
		}
		return dst, nil
	}
}

// IsAttribute reports whether CloudEvents have an attribute of the name, without a
// prefix, from Outrider: a header of the application cannot replace it.
func IsAttribute(name string) bool {
	switch name {
	case "specversion", "id", "source", "datacontenttype":
		return true
	}
	for i := range attributes {
		if attributes[i].name == name {
			return true
		}
	}
	return false
}

// CloudEventHeaders is the binary mode of CloudEvents: every attribute is a
// header whose name begins with prefix ("ce_" on Kafka, "ce-" on HTTP), apart
// from datacontenttype, which is the header "content-type". Headers of the
// application are sent with them unchanged, except that they cannot replace an
// attribute. Values are not percent-encoded; a transport that wants that
// (HTTP, NATS) does it by [Escape].
func CloudEventHeaders(source, prefix string) Headers {
	names := make(map[string]string, len(attributes))
	taken := map[string]bool{contentTypeHeader: true}
	for _, a := range attributes {
		names[a.meta] = prefix + a.name
		taken[prefix+a.name] = true
	}
	spec, id, src := prefix+"specversion", prefix+"id", prefix+"source"
	taken[spec], taken[id], taken[src] = true, true, true

	return func(dst []Header, msg *message.Message) ([]Header, error) {
		if err := checkCloudEvent(msg); err != nil {
			return nil, err
		}
		dst = append(dst,
			Header{spec, specVersion}, Header{id, msg.UUID}, Header{src, source},
			Header{contentTypeHeader, ContentType(msg)})
		for k, v := range msg.Metadata {
			if name, ok := names[k]; ok {
				dst = append(dst, Header{name, v})
				continue
			}
			if k == outbox.MetaEncoding || taken[k] || strings.EqualFold(k, contentTypeHeader) {
				continue // said by content-type, or would replace an attribute
			}
			dst = append(dst, Header{k, v})
		}
		return dst, nil
	}
}

const hexDigits = "0123456789ABCDEF"

// Escape writes an attribute of CloudEvents as a header of HTTP or NATS: space, quote, percent sign and everything that is not
// printable ASCII are percent-encoded.
func Escape(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	n := 0
	for i := range len(s) {
		if !plain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	var b strings.Builder
	b.Grow(len(s) + 2*n)
	for i := range len(s) {
		c := s[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}
