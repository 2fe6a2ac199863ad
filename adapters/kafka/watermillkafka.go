package kafka

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/outriderhq/outrider/adapters"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outriderhq/outrider/adapters/watermill" //nolint:depguard // the one adapter that is made to be wrapped by others
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// NewWatermillKafka returns a destination made of watermill-kafka's own publisher: one
// message per request and group, for those who need that client. It
// writes format watermill with the message group as the key, and supports SASL
// PLAIN only. Its client (sarama) assigns keys to partitions by another hash
// than [Destination]: changing the client of a topic that is in use moves groups
// to other partitions.
//
// It connects when the first message is delivered.
func NewWatermillKafka(cfg Config) (*watermill.Destination, error) {
	cfg, err := cfg.WithDefaults()
	if cfg.Format != format.Watermill {
		err = errors.Join(err, fmt.Errorf("format: the stock client writes watermill only, not %s", cfg.Format))
	}
	if cfg.Exclusive {
		err = errors.Join(err, errors.New("exclusive: the stock client has no transactions"))
	}
	settings, settingsErr := cfg.sarama()
	topics, topicErr := cfg.topics()
	if err := errors.Join(err, settingsErr, topicErr); err != nil {
		return nil, fmt.Errorf("kafka (stock client): %w", err)
	}
	pub := &publisher{cfg: kafka.PublisherConfig{
		Brokers: cfg.Brokers, Marshaler: keyed{}, OverwriteSaramaConfig: settings,
	}}
	return watermill.New(pub, watermill.Config{Topic: cfg.Topic, CheckTopic: topics.Check, Classify: classifySarama, Logger: cfg.Logger})
}

// sarama returns watermill-kafka's settings with what delivery needs: every
// acknowledgement is by all in-sync replicas, and time is bounded.
func (c Config) sarama() (*sarama.Config, error) {
	s := kafka.DefaultSaramaSyncPublisherConfig()
	s.ClientID = "outrider"
	s.Producer.RequiredAcks = sarama.WaitForAll
	s.Producer.Idempotent = true
	s.Net.MaxOpenRequests = 1 // as idempotence requires of this client
	s.Producer.MaxMessageBytes = c.MaxMessageBytes
	s.Producer.Timeout = c.Timeout / 2
	s.Net.DialTimeout, s.Net.ReadTimeout, s.Net.WriteTimeout = c.Timeout/2, c.Timeout, c.Timeout
	s.Metadata.Retry.Max, s.Metadata.Retry.Backoff = 1, metadataMinAge
	s.Metadata.AllowAutoTopicCreation = false
	if err := s.Producer.Compression.UnmarshalText([]byte(compressionName(c.Compression))); err != nil {
		return nil, fmt.Errorf("compression: %q is unknown: use none, gzip, snappy, lz4 or zstd", c.Compression)
	}
	s.Net.TLS.Enable, s.Net.TLS.Config = c.TLS != nil, c.TLS
	if c.SASL == nil {
		return s, nil
	}
	if _, err := c.SASL.mechanism(); err != nil {
		return nil, err
	}
	if c.SASL.Mechanism != sarama.SASLTypePlaintext {
		return nil, fmt.Errorf("sasl: the stock client supports PLAIN only, not %s", c.SASL.Mechanism)
	}
	s.Net.SASL.Enable, s.Net.SASL.User, s.Net.SASL.Password = true, c.SASL.Username, c.SASL.Password
	return s, nil
}

func compressionName(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

// keyed is the marshaler of watermill-kafka with the group as the key. That one with
// partitioning gives an empty key to messages that have none, which puts all of
// them into one partition.
type keyed struct{ kafka.DefaultMarshaler }

// Marshal implements watermill-kafka's Marshaler.
func (k keyed) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	out, err := k.DefaultMarshaler.Marshal(topic, msg)
	if err != nil {
		return nil, outbox.Permanent(err)
	}
	out.Value = sarama.ByteEncoder(adapters.PayloadOf(msg))
	if group := msg.Metadata[outbox.MetaGroup]; group != "" {
		out.Key = sarama.StringEncoder(group)
	}
	return out, nil
}

// publisher makes watermill-kafka's publisher when it is first needed: making one connects, and a
// broker that is down must not keep Outrider from starting.
type publisher struct {
	cfg kafka.PublisherConfig

	mu     sync.Mutex
	pub    *kafka.Publisher
	closed bool
}

func (s *publisher) open() (*kafka.Publisher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, outbox.Released(errClosed)
	}
	if s.pub == nil {
		pub, err := kafka.NewPublisher(s.cfg, nil)
		if err != nil {
			return nil, outbox.Unavailable(fmt.Errorf("kafka: no broker of %s answers: %w", strings.Join(s.cfg.Brokers, ", "), err), 0)
		}
		s.pub = pub
	}
	return s.pub, nil
}

// Publish implements message.Publisher.
func (s *publisher) Publish(topic string, msgs ...*message.Message) error {
	pub, err := s.open()
	if err != nil {
		return err
	}
	return pub.Publish(topic, msgs...)
}

// Close implements message.Publisher.
func (s *publisher) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pub == nil {
		return nil
	}
	return s.pub.Close()
}

// classifySarama gives an error of sarama the kind that franz-go's has.
func classifySarama(topic string, err error) error {
	if code, ok := errors.AsType[sarama.KError](err); ok {
		known := kerr.ErrorForCode(int16(code))
		if isRejection(known) {
			return rejection(topic, "", known)
		}
		return unavailable(topic, known)
	}
	if _, ok := errors.AsType[sarama.ConfigurationError](err); ok { // larger than Producer.MaxMessageBytes
		return outbox.Permanent(err)
	}
	return unavailable(topic, err)
}
