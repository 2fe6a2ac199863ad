package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// NATSServers are servers of NATS, and the login.
type NATSServers struct {
	URL             SecretURL `yaml:"url" required:"true" doc:"nats:// URL of the servers, such as nats://a:4222,b:4222. tls:// is with TLS."`
	TLS             TLS       `yaml:"tls" doc:"Encryption of the connection. Default: on if the url begins with tls://, or if there is a login and a server is not on this machine."`
	User            string    `yaml:"user" doc:"User name."`
	Password        Secret    `yaml:"password" doc:"Password of the user."`
	Token           Secret    `yaml:"token" doc:"Token, instead of a user."`
	CredentialsFile File      `yaml:"credentials_file" doc:"File with a user's JWT and seed (.creds), instead of a user."`
	NKeyFile        File      `yaml:"nkey_file" doc:"File with the seed of an nkey, instead of a user."`
}

// NATS sends to streams of NATS JetStream.
type NATS struct {
	NATSServers `yaml:",inline"`

	_ form.Key `yaml:"url"`

	Subject    Template `yaml:"subject" required:"true" doc:"Subject to publish to, or a template such as orders.{{.Type}}. A stream must cover it; until then messages wait."`
	Subjects   []Glob   `yaml:"subjects" doc:"Subjects that a template may produce, as patterns such as orders.*; a message of another subject is dead. If the subject is a template, routes need this key or match: {types: [...]}, so that writers of rows cannot choose any subject. A template never produces a subject that begins with $ or _."`
	Stream     string   `yaml:"stream" doc:"Stream that outrider topic create creates or extends, and that outrider doctor expects. Default: any that covers the subject."`
	Format     string   `yaml:"format" enum:"watermill|raw|cloudevents|debezium" default:"watermill" doc:"Format of a message: watermill-nats's wire format, the payload alone, a CloudEvent in binary mode (ce- headers), or the headers of Debezium's outbox event router (docs/migrate/debezium.md). The header Nats-Msg-Id has lane, subject and event id in each."`
	Debezium   `yaml:"debezium" doc:"With format debezium: how a payload becomes the value."`
	Timeout    Duration `yaml:"timeout" default:"10s" min:"100ms" max:"10m" doc:"Longest time until a batch of messages is acknowledged."`
	Monitoring string   `yaml:"monitoring" doc:"URL of a server's monitoring port, such as http://127.0.0.1:8222, where outrider doctor reads how often the server writes to disk."`
	Source     string   `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference. With format debezium: the topic.prefix of the connector."`

	_ form.Key `yaml:"tls"`
	_ form.Key `yaml:"user"`
	_ form.Key `yaml:"password"`
	_ form.Key `yaml:"token"`
	_ form.Key `yaml:"credentials_file"`
	_ form.Key `yaml:"nkey_file"`
}

// Kind is "nats".
func (*NATS) Kind() string { return "nats" }

func (n *NATS) static() bool { return n.Subject.Static() }

func (n *NATS) topics() Topics {
	return Topics{Key: "subject", List: "subjects", Template: n.Subject, Patterns: n.Subjects}
}

var (
	subjectName = regexp.MustCompile(`^[^\x00-\x20\x7f*>.]+(\.[^\x00-\x20\x7f*>.]+)*$`)
	streamName  = regexp.MustCompile(`^[^\x00-\x20\x7f*>./\\]{1,255}$`)
)

func validSubject(name string) bool { return len(name) <= 255 && subjectName.MatchString(name) }

func (n *NATS) check(c *form.Checker, at form.Location) {
	n.checkServers(c, at)
	n.topics().check(c, at, validSubject, "NATS", "use at most 255 characters in tokens that dots separate, without spaces, * and >")
	if n.Stream != "" && !streamName.MatchString(n.Stream) {
		c.Add(at.Child("stream"), "is not a name of a stream that NATS allows").Fix("use at most 255 characters, without spaces, dots, *, >, / and \\")
	}
	if u, err := url.Parse(n.Monitoring); n.Monitoring != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil) {
		c.Add(at.Child("monitoring"), "is not a URL of http or https").Fix("for example http://127.0.0.1:8222")
	}
	uri(c, at.Child("source"), n.Source)
	cloudEventsSource(c, at, n.Format)
	n.Debezium.check(c, at, n.Format)
}

// NATSSource reads a stream of NATS JetStream by a durable consumer, with Watermill's own Subscriber. Its messages have no cursor: what
// is not delivered at once is parked in the state store.
type NATSSource struct {
	NATSServers `yaml:",inline"`

	_ form.Key `yaml:"url"`

	Stream   string   `yaml:"stream" required:"true" doc:"Stream to read."`
	Consumer string   `yaml:"consumer" default:"outrider" doc:"Durable consumer of the stream. It is created if there is none, from the stream's first message on. Each source on a stream needs its own."`
	Subject  string   `yaml:"subject" doc:"Subject that a consumer which is created gets, such as orders.>. Default: all of the stream."`
	AckWait  Duration `yaml:"ack_wait" default:"1m" min:"1s" max:"24h" doc:"Time after which a message comes again if it has no verdict: after a crash, or if a delivery takes longer. For a consumer that exists, what it has."`
	Workers  int      `yaml:"workers" default:"1" min:"1" max:"1000" doc:"Most messages that wait for their verdict. 1: one after the other, in the order of the stream. More: faster, and in no order."`
	MaxRow   Size     `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload; a message with a larger one is dead."`
	Leader   bool     `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. No effect, because the source has one route."`

	_ form.Key `yaml:"tls"`
	_ form.Key `yaml:"user"`
	_ form.Key `yaml:"password"`
	_ form.Key `yaml:"token"`
	_ form.Key `yaml:"credentials_file"`
	_ form.Key `yaml:"nkey_file"`
}

// Kind is "nats".
func (*NATSSource) Kind() string { return "nats" }

func (*NATSSource) traits() traits { return traits{oneRoute: true} }

func (n *NATSSource) check(c *form.Checker, at form.Location) {
	n.checkServers(c, at)
	for key, name := range map[string]string{"stream": n.Stream, "consumer": n.Consumer} {
		if at.Has(key) && !streamName.MatchString(name) {
			c.Add(at.Child(key), "is not a name that NATS allows").Fix("use at most 255 characters, without spaces, dots, *, >, / and \\")
		}
	}
}

// parsed takes the url apart; no hosts: it is not set, or not a URL of NATS.
func (n *NATSServers) parsed() (scheme string, login *url.Userinfo, hosts []string) {
	scheme, rest, _ := strings.Cut(n.URL.Reveal(), "://")
	at := strings.LastIndex(rest, "@") + 1
	for host := range strings.SplitSeq(strings.TrimSuffix(rest[at:], "/"), ",") {
		u, err := url.Parse("nats://" + rest[:at] + host)
		if err != nil || u.Hostname() == "" || u.Host != host || scheme != "nats" && scheme != "tls" {
			return scheme, nil, nil
		}
		login, hosts = u.User, append(hosts, host)
	}
	return scheme, login, hosts
}

// Servers are the servers of the url, as host or host:port.
func (n *NATSServers) Servers() []string {
	_, _, hosts := n.parsed()
	return hosts
}

// Login is the user and the password, or the token that the url has in their place.
func (n *NATSServers) Login() (user, password, token string) {
	_, login, _ := n.parsed()
	if login == nil {
		return n.User, n.Password.Reveal(), n.Token.Reveal()
	}
	if secret, ok := login.Password(); ok {
		return login.Username(), secret, ""
	}
	return "", "", login.Username()
}

// Encrypted reports whether connections to the servers use TLS.
func (n *NATSServers) Encrypted() bool {
	scheme, _, _ := n.parsed()
	return n.TLS.on(scheme == "tls" || n.logins() > 0 && n.away())
}

// away reports whether a server is not on this machine.
func (n *NATSServers) away() bool {
	return slices.ContainsFunc(n.Servers(), func(server string) bool { return !loopback(hostOf(server)) })
}

// logins counts the ways to log in that are given.
func (n *NATSServers) logins() (given int) {
	_, login, _ := n.parsed()
	for _, way := range []bool{login != nil, n.User != "", !n.Token.IsZero(), n.CredentialsFile != "", n.NKeyFile != ""} {
		if way {
			given++
		}
	}
	return given
}

// checkServers checks the url, the login and the encryption.
func (n *NATSServers) checkServers(c *form.Checker, at form.Location) {
	scheme, _, hosts := n.parsed()
	switch {
	case n.URL.IsZero(): // reported as missing
		return
	case form.Unexpanded(n.URL.Reveal()):
		c.Add(at.Child("url"), "is a variable without braces, which is not replaced").Fix("write ${NAME}")
		return
	case len(hosts) == 0:
		c.Add(at.Child("url"), "is not a nats:// URL").Fix("for example nats://user@host:4222; special characters of a password are %%-encoded")
		return
	case scheme == "tls" && n.TLS.Off():
		c.Add(at.Child("tls").Child("enabled"), "the url is tls, which is TLS").Fix("remove enabled, or use nats")
	}
	if n.logins() > 1 {
		c.Add(at, "the login of the url, user, token, credentials_file and nkey_file exclude each other").Fix("keep one of them")
	}
	if n.User == "" && !n.Password.IsZero() {
		c.Add(at.Child("password").Key(), "has no effect without user").Fix("add user, or remove it")
	}
	for key, file := range map[string]File{"credentials_file": n.CredentialsFile, "nkey_file": n.NKeyFile} {
		if file != "" {
			c.WarnReadable(at.Child(key), string(file))
		}
	}
	switch {
	case !n.away():
	case n.TLS.Off() && n.logins() > 0, !n.Encrypted():
		c.Warn(at.Child("url"), "the login and the messages can be read and changed on their way to the servers").Fix("set tls: {enabled: true}")
	case !n.TLS.given() && scheme != "tls":
		c.Note(at.Child("url"), "the servers are not all on this machine, so TLS is used and their certificates are checked").
			Fix("confirm it with tls: {enabled: true}, add ca_file for an authority of your own, or turn it off with tls: {enabled: false}")
	}
}
