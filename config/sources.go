package config

import "github.com/outriderhq/outrider/config/internal/form"

// Source is where messages are read from: one of [*Postgres], [*SQLite], [*MongoDB], [*MySQL],
// [*HTTPSource], [*KafkaSource], [*AMQPSource], [*NATSSource], [*RedisSource] and [*Subscriber].
type Source interface {
	// Kind is the value of the key type.
	Kind() string
	traits() traits
}

// traits are the properties of a source that the checks of routes and of the state need.
type traits struct {
	log      bool   // an append-only table, which any number of routes may read, each from its own position
	oneRoute bool   // messages have one verdict each, so one route at most reads them
	offsets  bool   // routes may start at the offsets of a consumer group
	noun     string // in messages; empty: its kind

	database string     // tells whether two sources share one
	tls      *TLS       // of the connections to it
	state    *stateKind // the state may be in the source's database; nil: it may not
}

// StateBeside is the location of the state in a source's own database; empty: it has to be elsewhere.
func StateBeside(src Source) string {
	if t := src.traits(); t.state != nil {
		return t.database
	}
	return ""
}

// sources are the kinds of sources, in the order of the reference page.
var sources = form.NewRegistry[Source]("source",
	form.Kind{Zero: &Postgres{}, Doc: "An outbox table in PostgreSQL: append-only, or a queue whose rows carry a status."},
	form.Kind{Zero: &SQLite{}, Doc: "An outbox table in SQLite: append-only, or a queue whose rows carry a status."},
	form.Kind{Zero: &MongoDB{}, Doc: "Collections in MongoDB whose documents carry a status."},
	form.Kind{Zero: &MySQL{}, Doc: "Outbox tables in MariaDB or MySQL whose rows carry a status."},
	form.Kind{Zero: &HTTPSource{}, Doc: "HTTP requests as watermill-http's Publisher sends them. The response waits for the verdict: 200 if the message is delivered, skipped or durably parked, otherwise 503."},
	form.Kind{Zero: &KafkaSource{}, Doc: "A topic of Kafka, read as a member of a consumer group. Partitions are lanes and keys are groups: many keys of a partition are in flight at a time, each in order."},
	form.Kind{Zero: &AMQPSource{}, Doc: "A queue of RabbitMQ, read by watermill-amqp's Subscriber. A message is acknowledged if it is delivered, skipped or durably parked."},
	form.Kind{Zero: &NATSSource{}, Doc: "A stream of NATS JetStream, as watermill-nats's Publisher writes it. A message is acknowledged when it is delivered, skipped or durably parked."},
	form.Kind{Zero: &RedisSource{}, Doc: "A stream of Redis, read by watermill-redisstream's Subscriber in a consumer group. An entry is acknowledged when its message is delivered, skipped or durably parked."},
	form.Kind{Zero: &Subscriber{}, Doc: "A Watermill Subscriber that the embedding Go program supplies. The outrider binary has none."},
)

// Subscriber is a Watermill Subscriber given in Go. Its messages have no
// cursor: what is not delivered at once is parked in the state store.
type Subscriber struct {
	Topic  string `yaml:"topic" required:"true" doc:"Topic to subscribe to."`
	MaxRow Size   `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload. A message with a larger one, with more than 1,000 or 1 MiB of metadata, or with names of more than 1 KiB, is dead, with the reason in the error. The client that received it has already had it in memory."`
	Leader bool   `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. By default each route may have another instance. See docs/instances.md."`
}

// Kind is "subscriber".
func (*Subscriber) Kind() string { return "subscriber" }

func (*Subscriber) traits() traits { return traits{} }

// Poll adapts reading to the load: rows seen, read again at once; none seen,
// wait Min for After reads, then longer by Factor each time, up to Max.
type Poll struct {
	Batch  int      `yaml:"batch" default:"5000" min:"1" max:"100000" doc:"Most rows of one read; per table if there are several."`
	Min    Duration `yaml:"min" default:"1ms" min:"100us" max:"1h" doc:"Pause after a read that found nothing."`
	After  int      `yaml:"after" default:"3" min:"0" max:"1000" doc:"Empty reads before the pause grows."`
	Factor float64  `yaml:"factor" default:"2" min:"1" max:"100" doc:"Growth of the pause with each further empty read."`
	Max    Duration `yaml:"max" default:"1s" min:"100us" max:"1h" doc:"Longest pause."`
}

func (p *Poll) check(c *form.Checker, at form.Location) {
	if at.Sound("min", "max") && p.Max < p.Min {
		c.Add(at.Child("max"), "must not be less than min (%s), is %s",
			at.Child("min").Shown(p.Min), at.Child("max").Shown(p.Max))
	}
}

// HTTPSource takes messages by HTTP, as watermill-http's Publisher sends them. They
// have no cursor: what is not delivered at once is parked in the state store.
type HTTPSource struct {
	Listen      string   `yaml:"listen" required:"true" doc:"Address as host:port. An address that other machines can reach needs tokens_file. Only the instance that runs the source's route listens."`
	Path        string   `yaml:"path" default:"/" doc:"Path of the requests: POST with the headers Message-Uuid and Message-Metadata, and the payload as the body."`
	Tokens      []Secret `yaml:"tokens_file" file:"lines" doc:"File with the bearer tokens that requests may use, one per line; blank lines and lines that begin with # are ignored."`
	MaxRow      Size     `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload; a larger one is answered with 413."`
	MaxRequests int      `yaml:"max_requests" default:"256" min:"1" max:"100000" doc:"Most requests that are being read or wait for their verdict; further ones are answered with 503. Each may hold a payload of max_row in memory."`
	Leader      bool     `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. No effect, because the source has one route."`
}

// Kind is "http".
func (*HTTPSource) Kind() string { return "http" }

func (*HTTPSource) traits() traits { return traits{oneRoute: true} }

func (h *HTTPSource) check(c *form.Checker, at form.Location) {
	if err := hostPort(h.Listen, true); err != nil {
		if at.Has("listen") {
			c.Add(at.Child("listen"), "%v", err).Fix("for example 127.0.0.1:8090")
		}
	} else if !loopback(hostOf(h.Listen)) && !at.Has("tokens_file") {
		c.Add(at.Child("listen"), "other machines can reach this address, and there is no token").
			Fix("set tokens_file: /etc/outrider/senders, or listen on 127.0.0.1")
	}
	if h.Path == "" || h.Path[0] != '/' {
		c.Add(at.Child("path"), "does not begin with a slash").Fix("for example /events")
	}
}
