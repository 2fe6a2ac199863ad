// Package watermill makes a destination of any Watermill message.Publisher:
// one message per Publish, one Publish per group at a time. That keeps order
// with every publisher, whatever it does inside, and makes the whole of the
// Watermill ecosystem usable; it is not fast. Adapters of our own exist where
// that matters.
//
// A publisher does not say what its errors mean. Unless they carry an
// [outbox.Kind], or [Config.Classify] knows, they are transient.
package watermill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination].
type Config struct {
	// Topic is a template of the topic, see [format.Address]. Required.
	Topic string

	// CheckTopic refuses topics that a template leads to. nil: none is refused.
	CheckTopic func(topic string) error

	// MaxRequests bounds the calls of Publish that are in flight at once.
	// Default: adapters.DefaultMaxRequests.
	MaxRequests int

	// Classify marks an error of the publisher with its kind. It gets only
	// errors that carry none. Default: they are left as they are.
	Classify func(topic string, err error) error

	// Logger receives errors that become known too late to be an attempt's.
	// Default: slog.Default().
	Logger *slog.Logger
}

// Destination publishes through a Watermill publisher.
type Destination struct {
	pub      message.Publisher
	address  *format.Address
	cfg      Config
	close    sync.Once
	closeErr error
}

var _ adapters.Destination = (*Destination)(nil)

// New returns a destination that owns the publisher: Close closes it.
func New(pub message.Publisher, cfg Config) (*Destination, error) {
	if pub == nil {
		return nil, errors.New("watermill: no publisher given")
	}
	if cfg.Topic == "" {
		return nil, errors.New(`watermill: topic: none given: use a name or a template such as "{{.Type}}"`)
	}
	address, err := format.NewAddress(cfg.Topic, nil)
	if err != nil {
		return nil, fmt.Errorf("watermill: topic: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Destination{pub: pub, address: address, cfg: cfg}, nil
}

// Address renders the topic.
func (d *Destination) Address(msg *message.Message) (string, error) {
	topic, err := d.address.Render(msg)
	if err != nil || d.cfg.CheckTopic == nil || d.address.Static() {
		return topic, err
	}
	if err := d.cfg.CheckTopic(topic); err != nil {
		return "", outbox.Permanent(err)
	}
	return topic, nil
}

// Deliver implements [adapters.Destination]: messages are published one by one,
// each as a copy whose context is ctx. When ctx is done Deliver returns, even
// though a publisher that ignores contexts may continue with the one message. A
// publisher that panics fails the message with an [adapters.PanicError].
func (d *Destination) Deliver(ctx context.Context, topic string, batch []*message.Message) []error {
	var errs []error
	var held map[string]struct{}
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		var err error
		if _, ok := held[group]; ok && group != "" {
			err = errBehind
		} else if err = d.publish(ctx, topic, msg); err == nil {
			continue
		}
		if errs == nil {
			errs, held = make([]error, len(batch)), make(map[string]struct{})
		}
		errs[i] = err
		held[group] = struct{}{}
	}
	return errs
}

var errBehind = outbox.Released(errors.New("held back: an earlier message of its group was not delivered"))

func (d *Destination) publish(ctx context.Context, topic string, msg *message.Message) error {
	if ctx.Err() != nil {
		return interrupted(ctx, topic)
	}
	out := msg.Copy()
	out.Payload = adapters.PayloadOf(msg)
	out.SetContext(ctx)
	result := make(chan error, 1)
	go func() {
		err := d.call(topic, out)
		if p, ok := errors.AsType[*adapters.PanicError](err); ok && ctx.Err() != nil {
			d.cfg.Logger.Error("a publisher panicked that had gone on after its message was given up",
				"topic", topic, "id", out.UUID, "error", p, "stack", p.Stack)
		}
		result <- err
	}()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		return interrupted(ctx, topic)
	}
	var known *outbox.Error
	if err == nil || errors.As(err, &known) || errors.As(err, new(*adapters.PanicError)) {
		return err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return interrupted(ctx, topic)
	}
	if d.cfg.Classify != nil {
		return d.cfg.Classify(topic, err)
	}
	return err
}

// call publishes one message.
func (d *Destination) call(topic string, msg *message.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("the publisher", r)
		}
	}()
	return d.pub.Publish(topic, msg)
}

// interrupted is the error of a message whose delivery was abandoned.
func interrupted(ctx context.Context, topic string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return outbox.Released(fmt.Errorf("watermill: publishing to %q was called off: %w", topic, ctx.Err()))
	}
	return outbox.Transient(fmt.Errorf("watermill: publishing to %q took longer than the time given: %w", topic, ctx.Err()), 0)
}

// Ordering declares one message per request and one request per group.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{
		Unit:        adapters.UnitGroup,
		MaxMessages: 1,
		MaxRequests: d.cfg.MaxRequests,
		Static:      d.address.Static(),
	}
}

// Close closes the publisher, once.
func (d *Destination) Close() error {
	d.close.Do(func() { d.closeErr = d.pub.Close() })
	return d.closeErr
}
