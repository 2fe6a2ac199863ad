package config

import (
	"net/url"
	"unicode/utf8"

	"github.com/outriderhq/outrider/config/internal/form"
)

// AMQP sends to RabbitMQ, or another broker of AMQP 0.9.1. Messages are persistent, and confirmed by the broker.
type AMQP struct {
	URL         SecretURL `yaml:"url" required:"true" doc:"amqp:// or amqps:// URL of the broker, with user, password and virtual host. amqps uses TLS."`
	TLS         TLS       `yaml:"tls" doc:"Certificates of an amqps url. enabled: false accepts an amqp url to another machine without a warning."`
	Exchange    string    `yaml:"exchange" doc:"Exchange to publish to. Default: the default exchange, where the routing key is the name of a queue."`
	RoutingKey  Template  `yaml:"routing_key" required:"true" doc:"Routing key, or a template such as {{.Type}}. A message that no queue takes waits, as if the broker were down."`
	RoutingKeys []Glob    `yaml:"routing_keys" doc:"Routing keys that a template may produce, as patterns such as orders.*; a message of another is dead. If the routing key is a template, routes need this key or match: {types: [...]}, so that writers of rows cannot choose any queue. A template never produces one that begins with amq."`
	Format      string    `yaml:"format" enum:"watermill|raw|cloudevents|debezium" default:"watermill" doc:"Format of a message: watermill-amqp's wire format, the payload alone, a CloudEvent in binary mode (cloudEvents_ headers), or the headers of Debezium's outbox event router (docs/migrate/debezium.md). The message id is the event id in each."`
	Debezium    `yaml:"debezium" doc:"With format debezium: how a payload becomes the value."`
	PerGroup    int      `yaml:"per_group" default:"1" min:"1" max:"1000" doc:"Most messages of a group that are sent before the first of them is confirmed. 1 keeps the order of a group whatever happens. More is faster for few groups, for queues that never refuse single messages: one with a maximum length and overflow: reject-publish may store a later message before an earlier one. See docs/amqp.md."`
	Timeout     Duration `yaml:"timeout" default:"30s" min:"2s" max:"10m" doc:"Longest time until a batch of messages is confirmed."`
	Source      string   `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference. With format debezium: the topic.prefix of the connector."`
}

// Kind is "amqp".
func (*AMQP) Kind() string { return "amqp" }

func (a *AMQP) static() bool { return a.RoutingKey.Static() }

func (a *AMQP) topics() Topics {
	return Topics{Key: "routing_key", List: "routing_keys", Template: a.RoutingKey, Patterns: a.RoutingKeys}
}

// Encrypted reports whether the connection uses TLS.
func (a *AMQP) Encrypted() bool { return amqpEncrypted(a.URL) }

func amqpEncrypted(u SecretURL) bool {
	parsed, err := url.Parse(u.Reveal())
	return err == nil && parsed.Scheme == "amqps"
}

func validRoutingKey(key string) bool { return len(key) <= 255 && utf8.ValidString(key) }

func (a *AMQP) check(c *form.Checker, at form.Location) {
	amqpURL(c, at, a.URL, &a.TLS)
	a.topics().check(c, at, validRoutingKey, "AMQP", "use at most 255 bytes")
	if len(a.Exchange) > 255 {
		c.Add(at.Child("exchange"), "is longer than AMQP allows").Fix("use at most 255 bytes")
	}
	uri(c, at.Child("source"), a.Source)
	cloudEventsSource(c, at, a.Format)
	a.Debezium.check(c, at, a.Format)
}

// AMQPSource takes messages of a queue, as watermill-amqp's Publisher sends them. They have no cursor: what is not delivered at once is
// parked in the state store.
type AMQPSource struct {
	URL    SecretURL `yaml:"url" required:"true" doc:"amqp:// or amqps:// URL of the broker, with user, password and virtual host. amqps uses TLS."`
	TLS    TLS       `yaml:"tls" doc:"Certificates of an amqps url. enabled: false accepts an amqp url to another machine without a warning."`
	Queue  string    `yaml:"queue" required:"true" doc:"Queue to take messages from, one at a time. It must exist. Only the instance that runs the source's route takes messages."`
	MaxRow Size      `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload; a message with a larger one is dead."`
	Leader bool      `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. No effect, because the source has one route."`
}

// Kind is "amqp".
func (*AMQPSource) Kind() string { return "amqp" }

func (*AMQPSource) traits() traits { return traits{oneRoute: true} }

func (s *AMQPSource) check(c *form.Checker, at form.Location) {
	amqpURL(c, at, s.URL, &s.TLS)
	if len(s.Queue) > 255 {
		c.Add(at.Child("queue"), "is longer than AMQP allows").Fix("use at most 255 bytes")
	}
}

// Encrypted reports whether the connection uses TLS.
func (s *AMQPSource) Encrypted() bool { return amqpEncrypted(s.URL) }

// amqpURL checks the URL of a broker and its encryption; at is the mapping with url and tls.
func amqpURL(c *form.Checker, at form.Location, u SecretURL, t *TLS) {
	parsed := databaseURL(c, at.Child("url"), u, "5672", "", "amqp", "amqps")
	switch {
	case parsed == nil:
	case parsed.Scheme == "amqps":
		if t.Off() {
			c.Add(at.Child("tls").Child("enabled"), "the url is amqps, which is TLS").Fix("remove enabled, or use amqp")
		}
	case t.On():
		c.Add(at.Child("tls").Key(), "the url is amqp, which is without TLS").Fix("use amqps, or remove tls")
	case !loopback(parsed.Hostname()) && !t.Off():
		c.Warn(at.Child("url"), "the password and the messages can be read and changed on their way to the broker").
			Fix("use amqps, or accept it with tls: {enabled: false}")
	}
}
