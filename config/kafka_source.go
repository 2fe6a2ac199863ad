package config

import (
	"regexp"
	"slices"

	"github.com/outriderhq/outrider/config/internal/form"
)

// KafkaSource reads a topic as a member of a consumer group. A partition is a lane, and its offsets are the positions of the lane's cursor.
type KafkaSource struct {
	Brokers    []string `yaml:"brokers" required:"true" min:"1" doc:"Bootstrap addresses, as host:port."`
	Topic      string   `yaml:"topic" required:"true" doc:"Topic to read."`
	Group      string   `yaml:"group" required:"true" doc:"Consumer group. Each installation and each source on a topic needs its own; all instances of an installation share it."`
	Format     string   `yaml:"format" enum:"watermill|raw|cloudevents|debezium" default:"raw" doc:"Format of a record: the value alone, watermill-kafka's wire format, a CloudEvent in structured or binary mode, or what Debezium's outbox event router writes."`
	IDHeader   string   `yaml:"id_header" doc:"Header with the event id. Default: as the format says; without an id it is TOPIC/PARTITION/OFFSET."`
	IDField    string   `yaml:"id_field" doc:"Field with the event id in values that are JSON, as NAME or NAME.NAME. id_header comes first."`
	TypeHeader string   `yaml:"type_header" doc:"Header with the event type. Default: as the format says; without a type it is the topic."`
	GroupBy    string   `yaml:"group_header" doc:"Header with the message group. Default: the key of the record. Records of one group must be in one partition."`
	Tombstones string   `yaml:"tombstones" enum:"deliver|skip" default:"deliver" doc:"Records without a value are delivered with an empty payload and the header kafka_tombstone, or passed over."`
	Session    Duration `yaml:"session_timeout" default:"30s" min:"6s" max:"30m" doc:"Time without a heartbeat after which Kafka gives the partitions of an instance to others. They begin when the lease in the state store has ended, too."`
	Rebalance  Duration `yaml:"rebalance_timeout" default:"60s" min:"1s" max:"30m" doc:"Longest time for a hand-over of partitions. It should be longer than a delivery may take."`
	TLS        TLS      `yaml:"tls" doc:"Encryption of the connection. Default: on if sasl is set and a broker is not on this machine."`
	SASL       *SASL    `yaml:"sasl" doc:"Authentication."`
	Poll       Poll     `yaml:"poll" doc:"Interval and size of reads."`
	MaxRow     Size     `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest value. A record with a larger one is parked as dead without it. The client that received it has already had it in memory."`
}

// Kind is "kafka".
func (*KafkaSource) Kind() string { return "kafka" }

func (*KafkaSource) traits() traits {
	return traits{log: true, oneRoute: true, noun: "a topic of Kafka"}
}

// fieldPath matches the names of fields, without what has a meaning of its own in a path of gjson.
var fieldPath = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// Encrypted reports whether connections to the brokers use TLS.
func (k *KafkaSource) Encrypted() bool { return k.TLS.on(k.SASL != nil && brokersAway(k.Brokers)) }

func (k *KafkaSource) check(c *form.Checker, at form.Location) {
	checkBrokers(c, at, k.Brokers)
	if at.Sound("topic") && !validTopic(k.Topic) {
		c.Add(at.Child("topic"), "is not a name of a topic that Kafka allows").Fix("use at most 249 letters, digits, dots, underscores and hyphens")
	}
	if k.IDField != "" && !fieldPath.MatchString(k.IDField) {
		c.Add(at.Child("id_field"), "is not the path of a field").Fix("write id, or metadata.id for a field of a field")
	}
	checkSASL(c, at, k.SASL, &k.TLS, k.Encrypted(), brokersAway(k.Brokers))
	k.Poll.check(c, at.Child("poll"))
}

// checkCircle refuses a destination that writes to the topic which the route reads, and warns of one that may: a record without a type has the
// topic as its type.
func (k *KafkaSource) checkCircle(c *form.Checker, at form.Location, r *Route, to *Kafka) {
	if !slices.ContainsFunc(k.Brokers, func(b string) bool { return slices.Contains(to.Brokers, b) }) {
		return
	}
	switch {
	case string(to.Topic) == k.Topic:
		c.Add(at, "%s writes the topic %s, which the route reads: each message would come again without end", at.Quote(), k.Topic).
			Fix("name another topic")
	case to.Topic == "{{.Type}}" && anyGlob(to.Topics, k.Topic) && anyGlob(r.Match.Types, k.Topic):
		c.Warn(at, "a record without a type has the type %[2]s, and %[1]s would write it to the topic that the route reads", at.Quote(), k.Topic).
			Fix("exclude %s by match: {types: [...]}, or by topics: [...] of the destination", k.Topic)
	}
}
