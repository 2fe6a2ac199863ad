package redis

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

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

// anyProducer is the producer of messages that came over no lane.
const anyProducer = "outrider"

// xadd returns the command that adds a message to a stream. unique has the server recognise a message that is there already.
func (d *Destination) xadd(stream string, msg *message.Message, unique bool) ([]any, error) {
	args := make([]any, 0, 16)
	args = append(args, "xadd", stream)
	if unique {
		args = append(args, "idmp", cmp.Or(msg.Metadata[outbox.MetaLane], anyProducer), msg.UUID)
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
		return append(args, redisstream.UUIDHeaderKey, msg.UUID, fieldMetadata, appendMetadata(nil, msg.Metadata)), nil
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

// appendMetadata appends metadata as watermill-redisstream writes it: a map of strings in MessagePack; nothing for none. The library's own
// encoder works by reflection and takes several times as long.
func appendMetadata(dst []byte, metadata message.Metadata) []byte {
	n := len(metadata)
	switch {
	case n == 0:
		return dst
	case n < 1<<4:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xde), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdf), uint32(n)) //nolint:gosec // a row has at most 1000
	}
	for k, v := range metadata {
		dst = appendText(appendText(dst, k), v)
	}
	return dst
}

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
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n)) //nolint:gosec // a row has at most 512 MiB
	}
	return append(dst, s...)
}
