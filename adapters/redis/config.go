package redis

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination].
type Config struct {
	Servers

	// Stream is the key of the stream, or a template that renders it, see [format.Address]. Required.
	Stream string

	// Allowed reports whether a template may lead to a key; nil: to any.
	Allowed func(stream string) bool

	// Format is what an entry has; default: [format.Watermill].
	Format format.Format

	// CloudEventsSource is the attribute source of CloudEvents. Default: "outrider".
	CloudEventsSource string

	// MaxLen is about how many entries a stream keeps: older ones are removed, read or not. 0: all.
	MaxLen int64

	// Replicas is how many replicas have to confirm a batch, each within ReplicaTimeout. 0: none is asked.
	Replicas       int
	ReplicaTimeout time.Duration // default: 1 s

	// Repeats lets a server that could recognise repeated messages (IDMP, from Redis 8.6 on) store them again.
	Repeats bool

	// Logger is for what concerns no single message. Default: slog.Default().
	Logger *slog.Logger
}

// DefaultReplicaTimeout is the default of [Config.ReplicaTimeout].
const DefaultReplicaTimeout = time.Second

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c Config) WithDefaults() (Config, error) {
	c.Format = cmp.Or(c.Format, format.Watermill)
	c.CloudEventsSource = cmp.Or(c.CloudEventsSource, "outrider")
	c.ReplicaTimeout = cmp.Or(c.ReplicaTimeout, DefaultReplicaTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	err := c.check()
	if c.MaxLen < 0 || c.Replicas < 0 {
		err = errors.Join(err, errors.New("max len and replicas must not be negative"))
	}
	if c.Replicas > 0 && (c.ReplicaTimeout < time.Millisecond || c.ReplicaTimeout >= c.Timeout) {
		err = errors.Join(err, fmt.Errorf("the time for replicas, %v, must be from 1 ms to less than the timeout, %v", c.ReplicaTimeout, c.Timeout))
	}
	if _, unknown := format.Parse(string(c.Format)); unknown != nil {
		err = errors.Join(err, unknown)
	}
	return c, err
}

// topics are the streams that the configuration leads to.
func (c *Config) topics() (*broker.Topics, error) {
	if c.Stream == "" {
		return nil, errors.New("no stream")
	}
	return broker.NewTopics(broker.TopicsConfig{Noun: "stream", List: "streams", Template: c.Stream, Valid: checkStream, Allowed: c.Allowed})
}

// mostStream is the longest key in bytes that a stream may have. Redis would allow more.
const mostStream = 512

// checkStream says why a key is not taken as that of a stream. Redis allows any bytes; operators have to be able to type it.
func checkStream(key string) error {
	ok := key != "" && len(key) <= mostStream && utf8.ValidString(key)
	for _, r := range key {
		ok = ok && unicode.IsPrint(r) && r != ' '
	}
	if !ok {
		return fmt.Errorf("%q cannot be the key of a stream: use up to %d printable characters without spaces", key, mostStream)
	}
	return nil
}
