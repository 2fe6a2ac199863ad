package config

import (
	"regexp"
	"slices"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Kafka sends to a Kafka cluster. Records are always acknowledged by all
// in-sync replicas.
type Kafka struct {
	Brokers         []string `yaml:"brokers" required:"true" min:"1" doc:"Bootstrap addresses, as host:port."`
	Topic           Template `yaml:"topic" required:"true" doc:"Topic to write to, or a template such as {{.Type}}."`
	Topics          []Glob   `yaml:"topics" doc:"Topics that a template may produce, as patterns such as orders.*; a message of another topic is dead. If the topic is a template, routes need this key or match: {types: [...]}, so that writers of rows cannot choose any topic. A template never produces a topic that begins with _."`
	Format          string   `yaml:"format" enum:"watermill|raw|cloudevents|debezium" default:"watermill" doc:"Format of a record: watermill-kafka's wire format, the payload alone, a CloudEvent in binary mode (ce_ headers), or what Debezium's outbox event router writes (docs/migrate/debezium.md)."`
	Debezium        `yaml:"debezium" doc:"With format debezium: how a payload becomes the value."`
	Client          string   `yaml:"client" enum:"franz|watermill" default:"franz" doc:"franz is the fast client; watermill is the stock publisher of watermill-kafka."`
	TLS             TLS      `yaml:"tls" doc:"Encryption of the connection. Default: on if sasl is set and a broker is not on this machine."`
	SASL            *SASL    `yaml:"sasl" doc:"Authentication."`
	Acks            string   `yaml:"acks" enum:"all" default:"all" doc:"Replicas that must acknowledge a record. all is the only value, because fewer could lose messages."`
	Compression     string   `yaml:"compression" enum:"none|gzip|snappy|lz4|zstd" default:"none" doc:"Compression of record batches."`
	Timeout         Duration `yaml:"timeout" default:"30s" min:"2s" max:"10m" doc:"Longest time until a batch of records is acknowledged."`
	Exclusive       bool     `yaml:"exclusive" default:"false" doc:"Whether Kafka refuses late batches of a former owner of a lane that was frozen: each lane delivers in transactions, which consumers must read with isolation.level=read_committed. See docs/exclusive.md for the cost."`
	ExactlyOnce     bool     `yaml:"exactly_once" default:"false" doc:"Whether every message arrives exactly once at consumers with isolation.level=read_committed: the transactions of an exclusive destination also record what they deliver. Routes from tables that are claimed cannot use it. See docs/exclusive.md."`
	TransactionalID string   `yaml:"transactional_id" default:"outrider" doc:"Prefix of the transactional ids of an exclusive destination, followed by -/route/slot. Each installation on a cluster needs its own."`
	Source          string   `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference. With format debezium: the topic.prefix of the connector."`
}

// Kind is "kafka".
func (*Kafka) Kind() string { return "kafka" }

func (k *Kafka) static() bool { return k.Topic.Static() }

func (k *Kafka) topics() Topics {
	return Topics{Key: "topic", List: "topics", Template: k.Topic, Patterns: k.Topics}
}

// topicName matches the names that Kafka allows.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func validTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

// transactionalID matches ids that can be granted and read in a broker's log without
// quoting.
var transactionalID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

func checkBrokers(c *form.Checker, at form.Location, brokers []string) {
	for i, b := range brokers {
		item := at.Child("brokers").Item(i)
		if err := hostPort(b, false); err != nil && !item.Bad() {
			c.Add(item, "%v", err).Fix("for example 127.0.0.1:9092")
		}
	}
}

func (k *Kafka) check(c *form.Checker, at form.Location) {
	checkBrokers(c, at, k.Brokers)
	k.topics().check(c, at, validTopic, "Kafka", "use at most 249 letters, digits, dots, underscores and hyphens")
	if k.Client == "watermill" && k.Format != "watermill" && k.Format != "" {
		c.Add(at.Child("format"), "client watermill writes the format watermill only").
			Fix("remove client, or set format: watermill")
	}
	k.checkExclusive(c, at)
	k.checkLogin(c, at)
	uri(c, at.Child("source"), k.Source)
	cloudEventsSource(c, at, k.Format)
	k.Debezium.check(c, at, k.Format)
}

// Encrypted reports whether connections to the brokers use TLS.
func (k *Kafka) Encrypted() bool { return k.TLS.on(k.SASL != nil && k.away()) }

// away reports whether a broker is not on this machine.
func (k *Kafka) away() bool { return brokersAway(k.Brokers) }

func brokersAway(brokers []string) bool {
	return slices.ContainsFunc(brokers, func(b string) bool { return !loopback(hostOf(b)) })
}

// checkLogin checks whether a password is sent in the clear.
func (k *Kafka) checkLogin(c *form.Checker, at form.Location) {
	checkSASL(c, at, k.SASL, &k.TLS, k.Encrypted(), k.away())
}

func checkSASL(c *form.Checker, at form.Location, sasl *SASL, tls *TLS, encrypted, away bool) {
	if sasl == nil {
		return
	}
	switch {
	case encrypted:
		if !tls.given() {
			c.Note(at.Child("sasl").Key(), "the brokers are not all on this machine, so TLS is used and their certificates are checked").
				Fix("confirm it with tls: {enabled: true}, add ca_file for an authority of your own, or turn it off with tls: {enabled: false}")
		}
	case sasl.Mechanism == "plain":
		c.Warn(at.Child("sasl").Child("mechanism"), "plain without TLS sends the password in the clear").
			Fix("set tls: {enabled: true}, or use scram-sha-512")
	case away:
		c.Warn(at.Child("tls").Child("enabled"), "messages can be read and changed on their way to the brokers").Fix("set tls: {enabled: true}")
	}
}

// defaultTransactionalID is as the field declares it: a configuration that is
// written out in full has it, whether the destination is exclusive or not.
const defaultTransactionalID = "outrider"

func (k *Kafka) checkExclusive(c *form.Checker, at form.Location) {
	id := at.Child("transactional_id")
	switch {
	case !k.Exclusive && k.TransactionalID != defaultTransactionalID && at.Sound("exclusive", "transactional_id"):
		c.Add(id, "has no effect unless the destination is exclusive").Fix("add exclusive: true, or remove the key")
	case k.Exclusive && k.Client == "watermill":
		c.Add(at.Child("exclusive"), "client watermill has no transactions").Fix("remove client, or exclusive")
	case k.ExactlyOnce && !k.Exclusive && at.Sound("exclusive", "exactly_once"):
		c.Add(at.Child("exactly_once"), "needs the transactions of an exclusive destination").Fix("add exclusive: true")
	}
	if at.Sound("transactional_id") && !transactionalID.MatchString(k.TransactionalID) {
		c.Add(id, "must be 1 to 100 letters, digits, dots, underscores or hyphens").
			Fix("use a name of this installation, for example outrider-staging")
	}
}

// SASL is a login.
type SASL struct {
	Mechanism string `yaml:"mechanism" required:"true" enum:"plain|scram-sha-256|scram-sha-512" doc:"SASL mechanism."`
	Username  string `yaml:"username" required:"true" doc:"User name."`
	Password  Secret `yaml:"password" required:"true" doc:"Password."`
}
