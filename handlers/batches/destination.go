package batches

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// MaxEvents is how many events a batch of [Destination] has at most.
const MaxEvents = 100

// Publisher takes batches of events. Its methods may be called concurrently: there is one batch of a group at a time, and with
// `order: global` one batch in all.
type Publisher interface {
	// Name names the publisher in errors. It is constant.
	Name() string

	// IsHealthy reports whether the publisher can take events now. It is asked before each batch and should answer from memory. While it
	// reports false nothing is published and no attempt counts; the relay asks again with growing pauses.
	IsHealthy() bool

	// PublishBatch publishes the events in their order, and takes or refuses all of them: after an error each counts as not
	// delivered, and comes again. The error may have a kind (outbox.Unavailable, outbox.Permanent and so on); one without is a failed
	// attempt. ctx ends with the route's timeout and when the lane is lost.
	PublishBatch(ctx context.Context, events []outbox.Envelope) error
}

// destination hands batches to a publisher.
type destination struct {
	to   Publisher
	most int // events of a batch
}

// Destination returns the destination of a publisher.
func Destination(p Publisher) adapters.Destination { return Limited(p, MaxEvents) }

// Limited is [Destination] with batches of at most so many events.
func Limited(p Publisher, events int) adapters.Destination { return &destination{p, events} }

// Address is the publisher's name.
func (d *destination) Address(*message.Message) (string, error) { return d.to.Name(), nil }

func (d *destination) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	events := make([]outbox.Envelope, len(batch))
	for i, msg := range batch {
		if msg.Payload == nil { // an empty payload is never nil
			msg = msg.Copy()
			msg.Payload = []byte{}
		}
		var err error
		if events[i], err = outbox.EnvelopeOf(msg); err != nil {
			return d.unreadable(batch, i, err)
		}
	}
	err := d.publish(ctx, events)
	if err == nil {
		return nil
	}
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// unreadable gives up the message that is no event; the others come again without it.
func (d *destination) unreadable(batch []*message.Message, bad int, err error) []error {
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = outbox.Released(errors.New("held back: another event of its batch cannot be read"))
	}
	errs[bad] = outbox.Permanent(fmt.Errorf("publisher %s: %w", d.to.Name(), err))
	return errs
}

// publish calls the publisher, and gives its error a kind.
func (d *destination) publish(ctx context.Context, events []outbox.Envelope) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &outbox.Error{Kind: outbox.KindTransient, Err: adapters.Recovered("publisher "+d.to.Name(), r), Answered: true}
		}
	}()
	if ctx.Err() != nil {
		return outbox.Released(ctx.Err())
	}
	if !d.to.IsHealthy() {
		return outbox.Unavailable(fmt.Errorf("publisher %s reports that it is not healthy", d.to.Name()), 0)
	}
	err = d.to.PublishBatch(ctx, events)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled):
		return outbox.Released(err)
	case outbox.KindOf(err) != outbox.KindTransient:
		return err
	}
	failed := &outbox.Error{Kind: outbox.KindTransient, Err: fmt.Errorf("publisher %s: %w", d.to.Name(), err), Answered: true}
	if known, ok := errors.AsType[*outbox.Error](err); ok {
		failed.RetryAfter = known.RetryAfter
	}
	return failed
}

// Ordering declares batches of events of one group at a time.
func (d *destination) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: d.most, MaxGroups: 1, Static: true, Whole: true}
}

// Close does nothing: the publisher is the program's.
func (d *destination) Close() error { return nil }
