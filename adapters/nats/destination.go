package nats

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	wm "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Bounds of one wave. The servers take no more messages in one batch.
const (
	maxWaveMessages = 1000
	maxWaveBytes    = 4 << 20
)

// batches is how many batches a destination has under way; a stream takes 50 at a time, of all its publishers.
const batches = 8

// Destination delivers to streams of JetStream. It is an [adapters.Destination], an [adapters.Checker] and a Watermill
// message.Publisher. All methods may be called concurrently.
type Destination struct {
	cfg        Config
	subjects   *broker.Topics
	headers    format.Headers
	link       *link
	streams    streams
	slots      chan struct{} // one value for each batch under way
	duplicates atomic.Int64
}

var (
	_ adapters.Destination      = (*Destination)(nil)
	_ adapters.Checker          = (*Destination)(nil)
	_ adapters.DuplicateCounter = (*Destination)(nil)
	_ message.Publisher         = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the configuration. It does not connect; Check does.
func New(cfg Config) (*Destination, error) {
	cfg, err := cfg.WithDefaults()
	subjects, subjectErr := cfg.topics()
	if err := errors.Join(err, subjectErr); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return &Destination{cfg: cfg, subjects: subjects, headers: broker.Headers(cfg.Format, cfg.CloudEventsSource, cePrefix, wm.WatermillUUIDHdr),
		link: &link{cfg: cfg.Connection, timeout: cfg.Timeout}, slots: make(chan struct{}, batches)}, nil
}

// Address renders the subject. One that NATS does not allow is a permanent error.
func (d *Destination) Address(msg *message.Message) (string, error) { return d.subjects.Of(msg) }

// Ordering declares waves of up to 1,000 messages and 4 MiB of payload.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: maxWaveMessages, MaxBytes: maxWaveBytes, Static: d.subjects.Static()}
}

// Duplicates implements [adapters.DuplicateCounter]: messages that the stream had already.
func (d *Destination) Duplicates() int64 { return d.duplicates.Load() }

// Publish implements Watermill's message.Publisher, see [broker.Publish].
func (d *Destination) Publish(subject string, msgs ...*message.Message) error {
	return broker.Publish(d.Deliver, subject, maxWaveMessages, msgs)
}

// Close closes the connection. Deliveries after it come back released.
func (d *Destination) Close() error {
	d.link.close()
	return nil
}

// Check implements [adapters.Checker]: a server must answer, and a stream must cover a subject that is the same for all messages.
func (d *Destination) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	js, _, err := d.link.get()
	if err != nil {
		return err
	}
	if !d.subjects.Static() {
		_, err = js.AccountInfo(ctx)
		if err != nil {
			return d.unavailable(d.cfg.Subject, err)
		}
		return nil
	}
	_, err = d.find(ctx, js, d.cfg.Subject)
	return err
}
