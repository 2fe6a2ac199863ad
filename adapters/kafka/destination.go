package kafka

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
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
	topics    *broker.Topics
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
	topics, topicErr := cfg.topics()
	if err := errors.Join(err, optErr, topicErr); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	d := &Destination{cfg: cfg, follow: follow, topics: topics, pool: newPool(opts, cfg.Clients),
		headers:   broker.Headers(cfg.Format, cfg.CloudEventsSource, "ce_", kafka.UUIDHeaderKey),
		combiners: combiners{topics: map[string]*combiner{}}}
	// franz-go checks its options when a client is made.
	c, err := open(opts)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	d.pool.idle = append(d.pool.idle, c)
	return d, nil
}

// Address renders the topic. A name that Kafka does not allow is a permanent
// error.
func (d *Destination) Address(msg *message.Message) (string, error) { return d.topics.Of(msg) }

// topics returns the topics that the configuration leads to.
func (c *Config) topics() (*broker.Topics, error) {
	return broker.NewTopics(broker.TopicsConfig{Noun: "topic", List: "topics", Template: c.Topic, Valid: checkTopic, Reserved: internal, Allowed: c.Allowed})
}

// internal refuses the names of Kafka's own topics.
func internal(topic string) error {
	if topic[0] == '_' {
		return fmt.Errorf("topic %q begins with an underscore, as Kafka's own do; a template cannot lead there", topic)
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
		Static:      d.topics.Static(),
	}
}

// Publish implements Watermill's message.Publisher, see [broker.Publish].
func (d *Destination) Publish(topic string, msgs ...*message.Message) error {
	return broker.Publish(d.Deliver, topic, maxWaveMessages, msgs)
}

// Close closes the connections. Deliveries after it come back released.
func (d *Destination) Close() error {
	d.pool.close()
	d.large.close()
	return nil
}
