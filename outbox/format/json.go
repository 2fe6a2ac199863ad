package format

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// JSON returns the payload of msg, byte for byte, to be embedded as a value in a
// larger JSON text. A payload that is not JSON is an error: it would break its
// peers.
func JSON(msg *message.Message) ([]byte, error) {
	if isBinary(msg) {
		return nil, outbox.Permanent(fmt.Errorf(
			"message %s has a payload of bytes, which a JSON array cannot hold: use format cloudevents", msg.UUID))
	}
	return msg.Payload, checkJSON(msg)
}

func checkJSON(msg *message.Message) error {
	if ValidJSON(msg.Payload) {
		return nil
	}
	return outbox.Permanent(fmt.Errorf(
		"message %s has a payload that is not valid JSON and is not marked as bytes (metadata %q)", msg.UUID, outbox.MetaEncoding))
}

// appendMember appends a comma and a member of a JSON object; name needs no escaping.
func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD,
// since JSON cannot hold it.
func appendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		if c < ' ' {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, '\\', c)
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
