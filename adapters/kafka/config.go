package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination]. Brokers and Topic are required.
type Config struct {
	// Brokers are the addresses (host:port) to find the cluster by.
	Brokers []string

	// Topic is a template of the topic, see [format.Address]: "events" or
	// "{{.Type}}". Topics must exist: a delivery creates none, see [Destination.CreateTopic].
	Topic string

	// Allowed reports whether a template may lead to a topic; nil: to any. Those
	// that begin with an underscore are Kafka's own, and no template leads there.
	Allowed func(topic string) bool

	// Format is the wire format. Default: [format.Watermill], which loses nothing
	// of a message; [format.Raw] has no id and no metadata.
	// With [format.Debezium] a nil payload is a record without a value, and the timestamp of a record is the time of the event, if
	// the message has one ([outbox.MetaOccurredAt]).
	Format format.Format

	// CloudEventsSource is the source attribute of format cloudevents, and the connector's topic.prefix of format debezium.
	// Default: "outrider".
	CloudEventsSource string

	// TLS enables TLS; nil: plain text.
	TLS *tls.Config

	// SASL enables authentication; nil: none.
	SASL *SASL

	// Compression is none, gzip, snappy, lz4 or zstd. Default: none.
	Compression string

	// Timeout bounds a whole delivery, from waiting for a client to the last
	// acknowledgement. Default: 30 s; at least 2 s.
	Timeout time.Duration

	// MaxMessageBytes is the largest record batch that the topics take, as
	// in Kafka's max.message.bytes, before compression. A record that
	// cannot fit is refused without being sent. Default: 1048588, as in
	// Kafka; then a record that does not fit is sent alone, in a batch as large
	// as its topic takes: the brokers are asked for max.message.bytes.
	MaxMessageBytes int

	// Exclusive makes the broker refuse what a former owner of a lane still
	// sends: each lane delivers in transactions, one for each wave, with an id of
	// its own. Consumers must read with isolation.level=read_committed. See
	// [Destination.Fence].
	Exclusive bool

	// Once has the transactions of an exclusive destination keep notes, by which the next owner of a lane knows what was delivered: every
	// message arrives exactly once. See [adapters.OnceDestination].
	Once bool

	// TransactionalID begins the transactional ids of lanes, which are
	// TransactionalID-/route/slot. Installations that share a cluster need
	// different ones. Default: "outrider".
	TransactionalID string

	// Clients bounds the clients, and so the topics to which waves are under
	// way at once: a topic has one. Default: 16.
	Clients int

	// Logger receives warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultTimeout         = 30 * time.Second
	DefaultMaxMessageBytes = 1048588
	DefaultClients         = 16
	DefaultSource          = "outrider"
	DefaultTransactionalID = "outrider"
)

const (
	minTimeout         = 2 * time.Second
	minMaxMessageBytes = 1024
	maxMaxMessageBytes = 1 << 30 // franz-go's own bound
)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c Config) WithDefaults() (Config, error) {
	setDefault(&c.Format, format.Watermill)
	f, formatErr := format.Parse(string(c.Format))
	c.Format = f
	setDefault(&c.CloudEventsSource, DefaultSource)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.Compression, "none")
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.Clients, DefaultClients)
	setDefault(&c.TransactionalID, DefaultTransactionalID)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	errs := []error{formatErr}
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("brokers: none given: list at least one host:port"))
	}
	if c.Topic == "" {
		errs = append(errs, errors.New(`topic: none given: use a name or a template such as "{{.Type}}"`))
	}
	if c.Timeout < minTimeout {
		errs = append(errs, fmt.Errorf("timeout: %v is too short: use at least %v", c.Timeout, minTimeout))
	}
	if c.MaxMessageBytes < minMaxMessageBytes || c.MaxMessageBytes > maxMaxMessageBytes {
		errs = append(errs, fmt.Errorf("max message bytes: %d is not between %d and %d",
			c.MaxMessageBytes, minMaxMessageBytes, maxMaxMessageBytes))
	}
	if c.Once && !c.Exclusive {
		errs = append(errs, errors.New("once: needs exclusive"))
	}
	if c.Clients < 0 {
		errs = append(errs, fmt.Errorf("clients: %d is negative", c.Clients))
	}
	return c, errors.Join(errs...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func codec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("compression: %q is unknown: use none, gzip, snappy, lz4 or zstd", name)
}

// options returns the options of every client.
func (c Config) options() ([]kgo.Opt, error) {
	compression, err := codec(c.Compression)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("outrider"),
		kgo.DisableClientMetrics(), // they delay Close by up to a second
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerBatchMaxBytes(int32(c.MaxMessageBytes)),

		// Nothing leaves before the whole wave is buffered. With that, a
		// linger means nothing: a flush sends at once.
		kgo.ManualFlushing(),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(1 << 30), // a wave is bounded by its caller

		// franz-go gives up before Deliver does, and can then say why.
		kgo.RecordDeliveryTimeout(c.recordTimeout()),
		kgo.ProduceRequestTimeout(c.Timeout / 2),
		kgo.RequestTimeoutOverhead(c.Timeout / 2),
		kgo.RetryTimeout(c.Timeout / 2),
		kgo.DialTimeout(min(c.Timeout/2, longestDial)),
		kgo.RetryBackoffFn(backoff),

		// A topic that does not exist is known at once, and found soon after
		// it was created: the router probes it.
		kgo.UnknownTopicRetries(1),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.WithLogger(logger{c.Logger}),
	}
	if c.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	}
	if c.SASL != nil {
		mechanism, err := c.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// recordTimeout is how long franz-go tries to deliver a record; 0: until Deliver ends. It counts from the record's timestamp, which in
// format debezium is the time of the event.
func (c Config) recordTimeout() time.Duration {
	if c.Format == format.Debezium {
		return 0
	}
	return c.Timeout * 8 / 10
}

// longestDial bounds how long a connection may take, TLS included: a broker that is
// gone without a word is known to be after that.
const longestDial = 3 * time.Second

const metadataMinAge = 250 * time.Millisecond

// backoff is short: a wave that cannot be sent ends after Timeout, and pacing
// the attempts after that is the router's.
func backoff(fails int) time.Duration {
	return min(100*time.Millisecond<<min(fails, 4), time.Second)
}
