package redis

import (
	"encoding/binary"
	"fmt"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Fields of an entry, next to [redisstream.UUIDHeaderKey].
const (
	fieldPayload  = "payload"
	fieldMetadata = "metadata" // of watermill-redisstream
)

// maxValue is the longest value that Redis takes (proto-max-bulk-len).
const maxValue = 512 << 20

// xadd returns the command that adds a message to a stream. unique has the server recognise a message that is there already.
func (d *Destination) xadd(stream string, msg *message.Message, unique bool) ([]any, error) {
	args := make([]any, 0, 16)
	args = append(args, "xadd", stream)
	if unique {
		args = append(args, "idmp", broker.ProducerOf(msg), msg.UUID)
	}
	if d.cfg.MaxLen > 0 {
		args = append(args, "maxlen", "~", d.cfg.MaxLen)
	}
	args, err := d.fields(append(args, "*"), msg)
	if len(msg.Payload) > maxValue {
		err = outbox.Permanent(fmt.Errorf("message %s is too large for Redis: its payload has %d bytes, and a value at most %d", msg.UUID, len(msg.Payload), maxValue))
	}
	return append(args, fieldPayload, []byte(msg.Payload)), err
}

// fields appends the fields of a message but its payload.
func (d *Destination) fields(args []any, msg *message.Message) ([]any, error) {
	if d.headers == nil {
		if msg.Metadata[redisstream.UUIDHeaderKey] != "" {
			return args, outbox.Permanent(fmt.Errorf("message %s has a header %q, which Watermill keeps for the message id: rename the header", msg.UUID, redisstream.UUIDHeaderKey))
		}
		return append(args, redisstream.UUIDHeaderKey, msg.UUID, fieldMetadata, metadata(msg.Metadata)), nil
	}
	var some [16]format.Header
	headers, err := d.headers(some[:0], msg)
	for _, h := range headers {
		if h.Key != fieldPayload { // a header of that name gives way
			args = append(args, h.Key, h.Value)
		}
	}
	return args, err
}

// metadata returns metadata as watermill-redisstream writes it: a map of strings in MessagePack; nothing for none. The library's own encoder
// works by reflection and takes several times as long.
func metadata(of message.Metadata) []byte {
	n, size := len(of), 3
	if n == 0 {
		return nil
	}
	for k, v := range of {
		size += len(k) + len(v) + 2*longestHead
	}
	dst := make([]byte, 0, size)
	if n < 1<<4 {
		dst = append(dst, 0x80|byte(n))
	} else { // a row has at most 1,000
		dst = binary.BigEndian.AppendUint16(append(dst, 0xde), uint16(n))
	}
	for k, v := range of {
		dst = appendText(appendText(dst, k), v)
	}
	return dst
}

// longestHead is how many bytes precede a text at most.
const longestHead = 5

func appendText(dst []byte, s string) []byte {
	n := len(s)
	switch {
	case n < 1<<5:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}
