package config

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/config/internal/form"
)

// RedisServers has the keys of all that connects to Redis.
type RedisServers struct {
	Addresses []string       `yaml:"addresses" required:"true" single:"true" min:"1" doc:"Address of the server as host:port; with cluster, of some of its nodes; with sentinel, of the sentinels."`
	Cluster   bool           `yaml:"cluster" default:"false" doc:"Whether the addresses are nodes of a Redis Cluster. A stream is on one of them."`
	Sentinel  *RedisSentinel `yaml:"sentinel" doc:"The addresses are sentinels, which name the master."`
	Username  string         `yaml:"username" doc:"User name. Default: Redis's user default."`
	Password  Secret         `yaml:"password" doc:"Password."`
	Database  int            `yaml:"database" default:"0" min:"0" max:"100000" doc:"Number of the database; a cluster has only 0."`
	TLS       TLS            `yaml:"tls" doc:"Encryption of the connection. Default: on if a password is set and an address is not on this machine."`
	Timeout   Duration       `yaml:"timeout" default:"10s" min:"100ms" max:"10m" doc:"Longest time for a request, from dialling to the answer."`
}

// RedisSentinel says which master sentinels are asked for.
type RedisSentinel struct {
	Master   string `yaml:"master" required:"true" doc:"Name of the master in the sentinels' configuration."`
	Username string `yaml:"username" doc:"User name for the sentinels."`
	Password Secret `yaml:"password" doc:"Password for the sentinels."`
}

// Encrypted reports whether connections use TLS.
func (r *RedisServers) Encrypted() bool { return r.TLS.on(!r.Password.IsZero() && r.away()) }

// away reports whether an address is not on this machine.
func (r *RedisServers) away() bool {
	return slices.ContainsFunc(r.Addresses, func(a string) bool { return !loopback(hostOf(a)) })
}

func (r *RedisServers) check(c *form.Checker, at form.Location) {
	for i, a := range r.Addresses {
		item := at.Child("addresses").Item(i)
		if err := hostPort(a, false); err != nil && !item.Bad() {
			c.Add(item, "%v", err).Fix("for example 127.0.0.1:6379")
		}
	}
	switch {
	case r.Cluster && r.Sentinel != nil:
		c.Add(at.Child("sentinel").Key(), "a cluster fails over without sentinels").Fix("remove sentinel, or cluster")
	case len(r.Addresses) > 1 && !r.Cluster && r.Sentinel == nil && at.Sound("addresses", "cluster", "sentinel"):
		c.Add(at.Child("addresses"), "are several, and it is not said what they are").Fix("set cluster: true, or sentinel: {master: NAME}")
	case r.Cluster && r.Database != 0:
		c.Add(at.Child("database"), "a cluster has only database 0").Fix("remove the key")
	}
	if !r.away() || r.Encrypted() {
		return
	}
	if r.TLS.Off() {
		c.Warn(at.Child("tls").Child("enabled"), "the password and the messages can be read and changed on their way to Redis").Fix("set tls: {enabled: true}")
		return
	}
	c.Warn(at.Child("addresses"), "messages can be read and changed on their way to Redis").Fix("set tls: {enabled: true}, or accept it with tls: {enabled: false}")
}

// Redis adds entries to Redis Streams.
type Redis struct {
	RedisServers `yaml:",inline"`

	_ form.Key `yaml:"addresses"`
	_ form.Key `yaml:"cluster"`
	_ form.Key `yaml:"sentinel"`

	Stream   Template `yaml:"stream" required:"true" doc:"Key of the stream, or a template such as {{.Type}}. The first message creates it."`
	Streams  []Glob   `yaml:"streams" doc:"Keys that a template may produce, as patterns such as orders:*; a message of another is dead. If the stream is a template, routes need this key or match: {types: [...]}, so that writers of rows cannot choose any key."`
	Format   string   `yaml:"format" enum:"watermill|raw|cloudevents|debezium" default:"watermill" doc:"Fields of an entry: those of watermill-redisstream, id, type and metadata as fields of their own (raw), the attributes of a CloudEvent (ce_ fields), or the headers of Debezium's outbox event router (docs/migrate/debezium.md). The payload is the field payload in each."`
	Debezium `yaml:"debezium" doc:"With format debezium: how a payload becomes the value."`
	MaxLen   int        `yaml:"max_len" default:"0" min:"0" max:"1000000000000" doc:"About how many entries a stream keeps (MAXLEN ~): older ones are removed, whether they were read or not. 0: all."`
	Wait     *RedisWait `yaml:"wait" doc:"Replicas that must confirm a batch before its messages count as delivered (WAIT). Default: none."`
	Dedupe   bool       `yaml:"deduplicate" default:"true" doc:"Whether a server from Redis 8.6 on recognises a message that is sent again by its event id (IDMP). Older servers store it again."`

	_ form.Key `yaml:"username"`
	_ form.Key `yaml:"password"`
	_ form.Key `yaml:"database"`
	_ form.Key `yaml:"tls"`
	_ form.Key `yaml:"timeout"`

	Source string `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference. With format debezium: the topic.prefix of the connector."`
}

// RedisWait says which replicas confirm.
type RedisWait struct {
	Replicas int      `yaml:"replicas" required:"true" min:"1" max:"100" doc:"Number of replicas."`
	Timeout  Duration `yaml:"timeout" default:"1s" min:"1ms" max:"10m" doc:"Longest time for them to confirm. Then the messages are sent again when the replicas are back, and are in the stream twice."`
}

// Kind is "redis".
func (*Redis) Kind() string { return "redis" }

func (r *Redis) static() bool { return r.Stream.Static() }

func (r *Redis) topics() Topics {
	return Topics{Key: "stream", List: "streams", Template: r.Stream, Patterns: r.Streams}
}

// validStream reports whether a key can be that of a stream.
func validStream(key string) bool {
	odd := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }
	return key != "" && len(key) <= 512 && utf8.ValidString(key) && !strings.ContainsFunc(key, odd)
}

const streamRule = "use at most 512 printable characters without spaces"

func (r *Redis) check(c *form.Checker, at form.Location) {
	r.RedisServers.check(c, at)
	r.topics().check(c, at, validStream, "Redis", streamRule)
	if r.Wait != nil && r.Wait.Timeout >= r.Timeout && at.Sound("timeout", "wait") {
		c.Add(at.Child("wait").Child("timeout"), "must be less than the timeout of a request, %s", at.Child("timeout").Shown(r.Timeout)).Fix("lower it, or raise timeout")
	}
	uri(c, at.Child("source"), r.Source)
	cloudEventsSource(c, at, r.Format)
	r.Debezium.check(c, at, r.Format)
}

// RedisSource reads a Redis Stream by Watermill's Subscriber. Its messages have no cursor: what is not delivered at once is parked in the
// state store.
type RedisSource struct {
	RedisServers `yaml:",inline"`

	_ form.Key `yaml:"addresses"`
	_ form.Key `yaml:"cluster"`
	_ form.Key `yaml:"sentinel"`

	Stream string `yaml:"stream" required:"true" doc:"Key of the stream; it is created where there is none."`
	Group  string `yaml:"group" default:"outrider" doc:"Consumer group, which has what was read and acknowledged. It is created where there is none."`
	Start  string `yaml:"start" enum:"oldest|newest" default:"oldest" doc:"Where a new group begins: with the first entry of the stream, or with what is added from now on."`

	_ form.Key `yaml:"username"`
	_ form.Key `yaml:"password"`
	_ form.Key `yaml:"database"`
	_ form.Key `yaml:"tls"`
	_ form.Key `yaml:"timeout"`

	MaxRow Size `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload. A message with a larger one is dead, with its size in the error."`
	Leader bool `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. No effect, because the source has one route."`
}

// Kind is "redis".
func (*RedisSource) Kind() string { return "redis" }

func (*RedisSource) traits() traits { return traits{oneRoute: true} }

func (r *RedisSource) check(c *form.Checker, at form.Location) {
	r.RedisServers.check(c, at)
	if at.Has("stream") && !validStream(r.Stream) {
		c.Add(at.Child("stream"), "is not a stream name that Redis allows").Fix("%s", streamRule)
	}
}
