package amqp

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Bounds of one wave.
const (
	maxWaveMessages = 1000
	maxWaveBytes    = 4 << 20
)

// watermillID is the header in which watermill-amqp keeps the id of a message.
const watermillID = "_watermill_message_uuid"

// Destination delivers to a broker that speaks AMQP 0.9.1. It is an [adapters.Destination], an [adapters.Checker], an [adapters.Examiner],
// an [adapters.TopicCreator] and a Watermill message.Publisher. All methods may be called concurrently.
type Destination struct {
	cfg     Config
	topics  *broker.Topics
	headers format.Headers
	pool    pool
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
		return nil, fmt.Errorf("amqp: %w", err)
	}
	return &Destination{cfg: cfg, topics: topics, pool: newPool(&cfg),
		headers: broker.Headers(cfg.Format, cfg.CloudEventsSource, "cloudEvents_", watermillID)}, nil
}

// Address renders the routing key. One that AMQP does not allow is a permanent error.
func (d *Destination) Address(msg *message.Message) (string, error) { return d.topics.Of(msg) }

// Ordering declares waves of up to 1000 messages and 4 MiB of payload, with [Config.PerGroup] of each group.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{
		Unit:        adapters.UnitWave,
		MaxMessages: maxWaveMessages,
		MaxBytes:    maxWaveBytes,
		PerGroup:    d.cfg.PerGroup,
		Static:      d.topics.Static(),
	}
}

// Publish implements Watermill's message.Publisher, see [broker.Publish].
func (d *Destination) Publish(key string, msgs ...*message.Message) error {
	return broker.Publish(d.Deliver, key, maxWaveMessages, msgs)
}

// Close closes the connection. Deliveries after it come back released.
func (d *Destination) Close() error {
	d.pool.close()
	return nil
}
