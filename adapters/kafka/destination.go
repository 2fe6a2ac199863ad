package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Bounds of one wave. A thousand messages of a kilobyte fill a record batch of
// the default size; more than that costs memory and gains nothing.
const (
	maxWaveMessages = 2000
	maxWaveBytes    = 1 << 20
)

// Destination delivers to Kafka. It is an [adapters.Destination], an
// [adapters.Checker] and a Watermill message.Publisher. All methods may be called
// concurrently.
type Destination struct {
	cfg       Config
	address   *format.Address
	topic     string // when it is the same for all messages
	headers   format.Headers
	pool      *pool
	waves     sync.Pool
	combiners combiners
	waiting   waiting
	large     large
	follow    bool // the topics' limits

	warnBatchSize sync.Once
}

var (
	_ adapters.Destination = (*Destination)(nil)
	_ adapters.Checker     = (*Destination)(nil)
	_ message.Publisher    = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the
// configuration. It does not connect; Check does.
func New(cfg Config) (*Destination, error) {
	follow := cfg.MaxMessageBytes == 0
	cfg, err := cfg.WithDefaults()
	opts, optErr := cfg.options()
	address, topicErr := format.NewAddress(cfg.Topic, nil)
	if topicErr == nil && cfg.Topic != "" && address.Static() {
		topicErr = checkTopic(cfg.Topic)
	}
	if err := errors.Join(err, optErr, topicErr); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	d := &Destination{cfg: cfg, follow: follow, address: address, headers: headersOf(cfg), pool: newPool(opts, cfg.Clients),
		combiners: combiners{topics: map[string]*combiner{}}}
	if address.Static() {
		d.topic = cfg.Topic
	}
	// franz-go checks its options when a client is made.
	c, err := open(opts)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	d.pool.idle = append(d.pool.idle, c)
	return d, nil
}

func headersOf(cfg Config) format.Headers {
	switch cfg.Format {
	case format.CloudEvents:
		return format.CloudEventHeaders(cfg.CloudEventsSource, "ce_")
	case format.Watermill:
		return format.WatermillHeaders(kafka.UUIDHeaderKey)
	default:
		return format.RawHeaders
	}
}

// Address renders the topic. A name that Kafka does not allow is a permanent
// error.
func (d *Destination) Address(msg *message.Message) (string, error) {
	if d.topic != "" {
		return d.topic, nil
	}
	topic, err := d.address.Render(msg)
	if err != nil {
		return "", err
	}
	if err := d.cfg.checkRendered(topic); err != nil {
		return "", outbox.Permanent(err)
	}
	return topic, nil
}

// checkRendered says why a template must not lead to a topic.
func (c *Config) checkRendered(topic string) error {
	switch err := checkTopic(topic); {
	case err != nil:
		return err
	case topic[0] == '_':
		return fmt.Errorf("topic %q begins with an underscore, as Kafka's own do; a template cannot lead there", topic)
	case c.Allowed != nil && !c.Allowed(topic):
		return fmt.Errorf("topic %q is none that the destination allows (topics)", topic)
	}
	return nil
}

// checkTopic reports whether Kafka allows the name.
func checkTopic(name string) error {
	ok := name != "" && len(name) <= 249 && name != "." && name != ".."
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%q is not a valid topic name: use up to 249 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// Ordering declares waves of up to 2000 messages and 1 MiB of payload.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{
		Unit:        adapters.UnitWave,
		MaxMessages: maxWaveMessages,
		MaxBytes:    maxWaveBytes,
		Static:      d.address.Static(),
	}
}

// Publish implements Watermill's message.Publisher: all messages in waves, in
// order, to the topic given. The error is that of the first message that could
// not be delivered; messages of other groups may have been.
func (d *Destination) Publish(topic string, msgs ...*message.Message) error {
	for len(msgs) > 0 {
		n := min(len(msgs), maxWaveMessages)
		for i, err := range d.Deliver(context.Background(), topic, msgs[:n]) {
			if err != nil {
				return fmt.Errorf("message %s: %w", msgs[i].UUID, err)
			}
		}
		msgs = msgs[n:]
	}
	return nil
}

// Close closes the connections. Deliveries after it come back released.
func (d *Destination) Close() error {
	d.pool.close()
	d.large.close()
	return nil
}
