package redis

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Bounds of one wave. Redis does nothing else while it executes one: a thousand entries take it a few milliseconds.
const (
	maxWaveMessages = 1000
	maxWaveBytes    = 1 << 20
)

// Destination delivers to Redis Streams. It is an [adapters.Destination], an [adapters.Checker], an [adapters.Examiner] and a Watermill
// message.Publisher. All methods may be called concurrently.
type Destination struct {
	cfg     Config
	topics  *broker.Topics
	headers format.Headers // nil: Watermill's format
	links   *links

	alone    atomic.Bool // replicas did not confirm the last batch
	noRepeat atomic.Bool // the server refused IDMP
}

var (
	_ adapters.Destination = (*Destination)(nil)
	_ adapters.Checker     = (*Destination)(nil)
	_ message.Publisher    = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the configuration. It does not connect; Check does.
func New(cfg Config) (*Destination, error) {
	cfg, err := cfg.WithDefaults()
	topics, topicErr := cfg.topics()
	if err := errors.Join(err, topicErr); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	d := &Destination{cfg: cfg, topics: topics, links: newLinks(cfg.open)}
	if cfg.Format != format.Watermill {
		d.headers = broker.Headers(cfg.Format, cfg.CloudEventsSource, "ce_", "")
	}
	return d, nil
}

// Address renders the key of the stream. A key that is not allowed is a permanent error.
func (d *Destination) Address(msg *message.Message) (string, error) { return d.topics.Of(msg) }

// Ordering declares waves of up to 1000 messages and 1 MiB of payload.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: maxWaveMessages, MaxBytes: maxWaveBytes, Static: d.topics.Static()}
}

// Publish implements Watermill's message.Publisher, see [broker.Publish].
func (d *Destination) Publish(stream string, msgs ...*message.Message) error {
	return broker.Publish(d.Deliver, stream, maxWaveMessages, msgs)
}

// Close closes the connections. Deliveries after it come back released.
func (d *Destination) Close() error {
	d.links.close()
	return nil
}
