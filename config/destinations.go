package config

import "github.com/outriderhq/outrider/config/internal/form"

// Destination is where messages go: one of [*Kafka], [*AMQP], [*NATS], [*Redis], [*HTTP], [*Webhook], [*River], [*SQL],
// [*LogTo], [*StatisticsTo], [*Discard], [*Listeners] and [*Publisher].
type Destination interface {
	// Kind is the value of the key type.
	Kind() string
}

// destinations are the kinds of destinations, in the order of the reference page.
var destinations = form.NewRegistry[Destination]("destination",
	form.Kind{Zero: &Kafka{}, Doc: "A Kafka topic. The key of a record is the message's group."},
	form.Kind{Zero: &AMQP{}, Doc: "An exchange or a queue of RabbitMQ, or of another broker of AMQP 0.9.1."},
	form.Kind{Zero: &Redis{}, Doc: "A stream of Redis, or several."},
	form.Kind{Zero: &NATS{}, Doc: "Streams of NATS JetStream."},
	form.Kind{Zero: &HTTP{}, Doc: "An HTTP endpoint that accepts batches."},
	form.Kind{Zero: &Webhook{}, Doc: "Signed requests to HTTP endpoints, one per message (Standard Webhooks)."},
	form.Kind{Zero: &River{}, Doc: "Jobs of River (riverqueue.com), inserted in the transaction that settles their messages."},
	form.Kind{Zero: &SQL{}, Doc: "Rows of another outbox table in PostgreSQL, inserted in the transaction that settles their messages."},
	form.Kind{Zero: &LogTo{}, Doc: "Writes one log line per message; for trying things out."},
	form.Kind{Zero: &StatisticsTo{}, Doc: "Accepts and drops every message, and periodically logs the number of messages by event type."},
	form.Kind{Zero: &Discard{}, Doc: "Accepts and drops every message; for measuring."},
	form.Kind{Zero: &Listeners{}, Doc: "Functions of the embedding Go program, registered by event type. The outrider binary has none."},
	form.Kind{Zero: &Publisher{}, Doc: "A Watermill Publisher that the embedding Go program supplies. The outrider binary has none."},
)

// LogTo writes messages to Outrider's own log.
type LogTo struct {
	Level string `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Level of the lines."`
}

// Kind is "log".
func (*LogTo) Kind() string { return "log" }

// Discard drops messages.
type Discard struct{}

// Kind is "discard".
func (*Discard) Kind() string { return "discard" }

// Listeners are functions given in Go.
type Listeners struct {
	Workers int `yaml:"workers" default:"4" min:"1" max:"10000" doc:"Most events that listeners handle at a time, over all lanes of a route. A worker is busy until the listener returns."`
}

// Kind is "listeners".
func (*Listeners) Kind() string { return "listeners" }

// Publisher is a Watermill Publisher given in Go.
type Publisher struct {
	Topic Template         `yaml:"topic" default:"{{.Type}}" doc:"Topic to publish to, or a template such as {{.Type}}. Default: the type of the message. A destination that is supplied with WithPublisher has no topic."`
	Batch BatchOfPublisher `yaml:"batch" doc:"Limits of one batch, for a destination that is supplied with WithPublisher."`
}

// BatchOfPublisher bounds the batches of a publisher that takes batches.
type BatchOfPublisher struct {
	MaxMessages int `yaml:"max_messages" default:"100" min:"1" max:"1000" doc:"Most messages."`
}

// Kind is "publisher".
func (*Publisher) Kind() string { return "publisher" }

func (p *Publisher) static() bool { return p.Topic.Static() }

// cloudEventsSource warns about a source that no format uses. It is the same
// for all destinations that know the format.
func cloudEventsSource(c *form.Checker, at form.Location, format string) {
	if format != "cloudevents" && format != debezium && at.Has("source") {
		c.Warn(at.Child("source"), "has no effect with format %s", format).Fix("remove it, or set format: cloudevents")
	}
}
