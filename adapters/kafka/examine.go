package kafka

import (
	"context"
	"errors"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var _ adapters.Examiner = (*Destination)(nil)

// Examine implements [adapters.Examiner]: brokers are dialled, their certificates
// looked at, and the topic, if it is the same for all messages, asked for.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	f := endpoint.DialAny(ctx, d.cfg.Brokers, "9092", d.cfg.TLS, d.cfg.Timeout)
	subject := "topic " + d.cfg.Topic
	if !d.topics.Static() {
		subject = "cluster"
	}
	err := d.Check(ctx)
	if errors.As(err, new(*away)) { // said above, of each broker
		return append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: "not checked: no broker answers"})
	}
	if err != nil {
		return append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: err.Error(),
			Fix: "create the topic or correct its name; when no broker answers, check addresses, tls and sasl"})
	}
	if d.topics.Static() {
		return append(f, adapters.Finding{Subject: subject, Text: "exists"})
	}
	return append(f, adapters.Finding{Subject: subject, Text: "answers"},
		adapters.Finding{Level: adapters.LevelUnknown, Subject: "topics " + d.cfg.Topic,
			Text: "depend on the message, so whether they exist is known when one is sent", Fix: "make sure that there is one for each value; topics are not created"})
}
