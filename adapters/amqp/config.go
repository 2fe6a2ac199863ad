package amqp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination]. URL and RoutingKey are required.
type Config struct {
	// URL is amqp://user:password@host:port/vhost, or amqps:// for TLS.
	URL string

	// Exchange is the exchange that messages are published to. Default: the default exchange, where
	// a routing key is the name of a queue.
	Exchange string

	// RoutingKey is a template of the routing key, see [format.Address]: "orders" or "{{.Type}}".
	RoutingKey string

	// Allowed reports whether a template may lead to a routing key; nil: to any. Those that begin with "amq." are
	// the broker's own, and no template leads there.
	Allowed func(key string) bool

	// Format is the wire format. Default: [format.Watermill], which loses nothing of a message.
	Format format.Format

	// CloudEventsSource is the source attribute of format cloudevents. Default: "outrider".
	CloudEventsSource string

	// TLS has the certificates for a URL of amqps; nil: the system's authorities.
	TLS *tls.Config

	// Timeout bounds a whole delivery, from connecting to the last confirm. Default: 30 s; at least 2 s.
	Timeout time.Duration

	// PerGroup bounds the messages of each group that are sent before the first of them is confirmed. Default: 1, which keeps the
	// order whatever a queue refuses; see the package comment.
	PerGroup int
}

// Defaults of [Config].
const (
	DefaultTimeout  = 30 * time.Second
	DefaultSource   = "outrider"
	DefaultPerGroup = 1
)

const minTimeout = 2 * time.Second

// WithDefaults returns the configuration completed, or all that is wrong with it. No error shows the URL.
func (c Config) WithDefaults() (Config, error) {
	c.Format = cmp.Or(c.Format, format.Watermill)
	f, formatErr := format.Parse(string(c.Format))
	c.Format = f
	c.CloudEventsSource = cmp.Or(c.CloudEventsSource, DefaultSource)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.PerGroup = cmp.Or(c.PerGroup, DefaultPerGroup)
	errs := []error{formatErr}
	if _, err := rabbit.ParseURI(c.URL); err != nil {
		errs = append(errs, errors.New("url: not a URL of AMQP: use amqp://user:password@host:5672/vhost, with special characters percent-encoded"))
	}
	if c.RoutingKey == "" {
		errs = append(errs, errors.New(`routing key: none given: use a name or a template such as "{{.Type}}"`))
	}
	if len(c.Exchange) > longestName {
		errs = append(errs, fmt.Errorf("exchange: longer than %d bytes", longestName))
	}
	if c.Timeout < minTimeout {
		errs = append(errs, fmt.Errorf("timeout: %v is too short: use at least %v", c.Timeout, minTimeout))
	}
	if c.PerGroup < 0 {
		errs = append(errs, fmt.Errorf("per group: %d is negative", c.PerGroup))
	}
	return c, errors.Join(errs...)
}

// topics returns the routing keys that the configuration leads to.
func (c *Config) topics() (*broker.Topics, error) {
	return broker.NewTopics(broker.TopicsConfig{Noun: "routing key", List: "routing_keys", Template: c.RoutingKey, Valid: checkKey, Reserved: reserved, Allowed: c.Allowed})
}

// longestName is the longest text that AMQP has for names, keys and ids, in bytes.
const longestName = 255

// checkKey reports whether AMQP allows the routing key.
func checkKey(key string) error {
	if key == "" || len(key) > longestName || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%q is not a valid routing key: use 1 to %d bytes of text", key, longestName)
	}
	return nil
}

// reserved refuses the names of the broker's own queues.
func reserved(key string) error {
	if strings.HasPrefix(key, "amq.") {
		return fmt.Errorf("routing key %q begins with amq., as the broker's own names do; a template cannot lead there", key)
	}
	return nil
}
