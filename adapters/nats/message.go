package nats

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// The headers of a CloudEvent in NATS's binary mode.
const (
	cePrefix      = "ce-"
	ceContentType = "ce-datacontenttype"
)

// encode makes the message that is sent. It shares the payload's bytes.
func (d *Destination) encode(subject string, msg *message.Message, scratch []format.Header) (*natsgo.Msg, []format.Header, error) {
	list, err := d.headers(scratch[:0], msg)
	if err != nil {
		return nil, scratch, err
	}
	out := &natsgo.Msg{Subject: subject, Data: adapters.PayloadOf(msg), Header: make(natsgo.Header, len(list)+4)} // a batch adds three
	for _, h := range list {
		if d.cfg.Format == format.CloudEvents && strings.HasPrefix(h.Key, cePrefix) {
			h.Value = format.Escape(h.Value)
		}
		if err := checkHeader(h); err != nil {
			return nil, list, outbox.Permanent(fmt.Errorf("nats: message %s: %w", msg.UUID, err))
		}
		out.Header[h.Key] = []string{h.Value}
	}
	if d.cfg.Format == format.CloudEvents {
		out.Header[ceContentType] = []string{format.Escape(format.ContentType(msg))}
	}
	if err := checkHeader(format.Header{Key: "id", Value: msg.UUID}); err != nil {
		return nil, list, outbox.Permanent(fmt.Errorf("nats: message %s: %w", msg.UUID, err))
	}
	out.Header[jetstream.MsgIDHeader] = []string{storedID(subject, msg)}
	return out, list, nil
}

// storedID is what a stream recognises a message by. A stream has one set of ids for all its subjects and publishers: without lane and subject
// the message of a second route, or of a table with the same serial keys, would count as stored.
func storedID(subject string, msg *message.Message) string {
	return broker.ProducerOf(msg) + " " + subject + " " + msg.UUID
}

// eventID is the event id in such an id. One of another publisher is returned as it is.
func eventID(subject, stored string) string {
	if _, id, ours := strings.Cut(stored, " "+subject+" "); ours {
		return id
	}
	return stored
}

// forbidden are the characters that the client refuses in names of headers.
const forbidden = "\"()/,:;<=>?@[\\]{}"

// checkHeader says why a header cannot be sent as it is. The servers obey headers that begin with Nats-, and so must not get those of
// an application: Nats-Rollup removes what is stored.
func checkHeader(h format.Header) error {
	const own = "Nats-"
	switch {
	case len(h.Key) >= len(own) && strings.EqualFold(h.Key[:len(own)], own):
		return fmt.Errorf("its metadata %q is a header that NATS servers obey: rename it", h.Key)
	case h.Key == "" || strings.ContainsFunc(h.Key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(forbidden, r) }):
		return fmt.Errorf("its metadata %q cannot be the name of a header: use printable ASCII without spaces and %s", h.Key, forbidden)
	case strings.ContainsAny(h.Value, "\r\n") || textproto.TrimString(h.Value) != h.Value:
		return fmt.Errorf("its %q cannot be a header as it is: remove line breaks, and spaces at the begin and the end", h.Key)
	}
	return nil
}
