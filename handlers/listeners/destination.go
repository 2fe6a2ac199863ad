package listeners

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// DefaultWorkers is the default number of events that listeners handle at once.
const DefaultWorkers = 4

// destination hands messages to listeners.
type destination struct {
	registry *Registry
	workers  int
}

// Address is the same for all events, so that a route with `order: global` keeps it.
func (d *destination) Address(*message.Message) (string, error) { return "listeners", nil }

func (d *destination) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	var errs []error
	var held map[string]bool
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		err := errBehind
		if group == "" || !held[group] {
			err = d.deliver(ctx, msg)
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs, held = make([]error, len(batch)), make(map[string]bool)
		}
		errs[i], held[group] = err, true
	}
	return errs
}

var errBehind = outbox.Released(errors.New("held back: an earlier event of its group was not delivered"))

// deliver calls the listeners of one message until one fails.
func (d *destination) deliver(ctx context.Context, msg *message.Message) error {
	for _, l := range d.registry.listeners() {
		if !l.matches(msg) {
			continue
		}
		if ctx.Err() != nil {
			return classify(ctx, fmt.Errorf("before listener %q: %w", l.name, ctx.Err()))
		}
		if err := l.call(&delivery{ctx, msg}); err != nil {
			return classify(ctx, fmt.Errorf("listener %q: %w", l.name, err))
		}
	}
	return nil
}

// errGone is the error of a listener that did not return.
var errGone = errors.New("it ended its goroutine, as runtime.Goexit and FailNow of a test do, instead of returning")

// call runs one listener with a message of its own, on a goroutine of its own: one that ends its goroutine
// would take the lane's worker with it.
func (l *listener) call(d *delivery) error {
	msg := d.msg.Copy()
	msg.Payload = adapters.PayloadOf(d.msg)
	msg.SetContext(d)
	result := make(chan error, 1)
	go func() {
		err := errGone
		defer func() {
			if r := recover(); r != nil {
				err = adapters.Recovered("it", r)
			}
			result <- err
		}()
		_, err = l.handler(msg)
	}()
	return <-result
}

// classify gives the error of a listener its kind. A failure without one is the event's own: it counts as an attempt, however
// many events fail, because there is no address behind a function that could be down.
func classify(ctx context.Context, err error) error {
	if errors.As(err, new(*outbox.Decision)) {
		return err
	}
	if known, ok := errors.AsType[*outbox.Error](err); ok {
		if known.Kind != outbox.KindTransient {
			return err
		}
		return &outbox.Error{Kind: outbox.KindTransient, Err: err, RetryAfter: known.RetryAfter, Answered: true}
	}
	if errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled) {
		return outbox.Released(err)
	}
	if outbox.KindOf(err) == outbox.KindUnavailable { // a breaker is open
		return err
	}
	return &outbox.Error{Kind: outbox.KindTransient, Err: err, Answered: true}
}

// Ordering declares one event per worker and one at a time per group.
func (d *destination) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1, MaxRequests: d.workers, Static: true}
}

// Close does nothing: the listeners are the program's.
func (d *destination) Close() error { return nil }

type messageKey struct{}

// delivery is the context of a listener: it ends with the delivery, and has the values of the message's own context too,
// such as its attempt and its span.
type delivery struct {
	context.Context
	msg *message.Message
}

func (d *delivery) Value(key any) any {
	if key == (messageKey{}) {
		return d.msg
	}
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.msg.Context().Value(key)
}

// EnvelopeOf returns the event that a listener was called with, from its context. Elsewhere, and for an event whose
// metadata cannot be read, ok is false.
func EnvelopeOf(ctx context.Context) (e outbox.Envelope, ok bool) {
	msg, _ := ctx.Value(messageKey{}).(*message.Message)
	if msg == nil {
		return outbox.Envelope{}, false
	}
	e, err := outbox.EnvelopeOf(msg)
	return e, err == nil
}

// decode returns what a listener takes, from a message.
func decode[P any](msg *message.Message) (payload P, err error) {
	binary := msg.Metadata[outbox.MetaEncoding] == outbox.EncodingBytes
	switch into := any(&payload).(type) {
	case *outbox.Envelope:
		*into, err = outbox.EnvelopeOf(msg)
		return payload, err
	case *[]byte:
		*into = append([]byte{}, msg.Payload...)
		return payload, nil
	case encoding.BinaryUnmarshaler:
		if binary {
			if err := into.UnmarshalBinary(msg.Payload); err != nil {
				return payload, fmt.Errorf("the payload cannot be decoded as %T: %w", payload, err)
			}
			return payload, nil
		}
	}
	if binary {
		return payload, fmt.Errorf("the payload is bytes and not JSON, and %T has no UnmarshalBinary", payload)
	}
	if err := json.Unmarshal(msg.Payload, &payload); err != nil {
		return payload, fmt.Errorf("the payload cannot be decoded as %T: %w", payload, err)
	}
	return payload, nil
}
