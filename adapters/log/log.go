// Package log holds the destinations that need no receiver: [New] writes one
// line per message to a structured logger, [NewStatistics] a line from time to time
// that says how many there were, and [Discard] delivers to nowhere.
// They serve for trying out a route and for measuring one.
//
// The line of [New] holds the payload. Everyone who can read the log can read the messages.
package log

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// maxMessages bounds a wave.
const maxMessages = 1000

// Attributes of a line, next to the message "outbox message".
const (
	AttrID       = "id"
	AttrType     = "type"
	AttrGroup    = "group" // only with a group
	AttrPosition = "position"
	AttrLane     = "lane"
	AttrPayload  = "payload" // text, or bytes if the payload is not JSON
)

// Destination writes lines. It cannot fail.
type Destination struct {
	logger *slog.Logger // nil: discard
	level  slog.Level
	name   string
}

var _ adapters.Destination = (*Destination)(nil)

// New returns a destination that writes to logger at a level; nil is
// slog.Default().
func New(logger *slog.Logger, level slog.Level) *Destination {
	if logger == nil {
		logger = slog.Default()
	}
	return &Destination{logger: logger, level: level, name: "log"}
}

// Discard returns a destination that takes everything and keeps nothing.
func Discard() *Destination { return &Destination{name: "discard"} }

// Address is "log" or "discard".
func (d *Destination) Address(*message.Message) (string, error) { return d.name, nil }

// Deliver implements [adapters.Destination]. Once ctx is done nothing is written:
// what is left comes back released.
func (d *Destination) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	var errs []error
	for i, msg := range batch {
		if err := ctx.Err(); err != nil {
			if errs == nil {
				errs = make([]error, len(batch))
			}
			errs[i] = outbox.Released(err)
			continue
		}
		d.write(ctx, msg)
	}
	return errs
}

func (d *Destination) write(ctx context.Context, msg *message.Message) {
	if d.logger == nil || !d.logger.Enabled(ctx, d.level) {
		return
	}
	payload := slog.String(AttrPayload, string(msg.Payload))
	if msg.Metadata[outbox.MetaEncoding] == outbox.EncodingBytes {
		payload = slog.Any(AttrPayload, adapters.PayloadOf(msg))
	}
	attrs := []slog.Attr{
		slog.String(AttrID, msg.UUID),
		slog.String(AttrType, msg.Metadata[outbox.MetaType]),
		slog.String(AttrPosition, msg.Metadata[outbox.MetaPosition]),
		slog.String(AttrLane, msg.Metadata[outbox.MetaLane]),
	}
	if group := msg.Metadata[outbox.MetaGroup]; group != "" {
		attrs = append(attrs, slog.String(AttrGroup, group))
	}
	d.logger.LogAttrs(ctx, d.level, "outbox message", append(attrs, payload)...)
}

// Ordering declares waves of up to 1000 messages.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: maxMessages, Static: true, Whole: true}
}

// Close does nothing.
func (d *Destination) Close() error { return nil }
