package nats

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination]. Servers and Subject are required.
type Config struct {
	Connection

	// Subject is a template of the subject, see [format.Address]: "orders.events" or "orders.{{.Type}}". A stream must cover it: a
	// delivery creates none, see [Destination.CreateTopic].
	Subject string

	// Allowed reports whether a template may lead to a subject; nil: to any. Those that begin with $ or _ are the servers' own, and no
	// template leads there.
	Allowed func(subject string) bool

	// Stream is the stream that [Destination.CreateTopic] creates or extends, and that the doctor expects. Default: any that covers
	// the subject; one that is created has the subject's name with _ for dots.
	Stream string

	// Format is the wire format. Default: [format.Watermill], as watermill-nats writes and reads it.
	Format format.Format

	// CloudEventsSource is the source attribute of format cloudevents. Default: "outrider".
	CloudEventsSource string

	// Timeout bounds a whole delivery, from waiting for a connection to the last acknowledgement. Default: 10 s; at least 100 ms.
	Timeout time.Duration

	// Monitoring is the URL of a server's monitoring port, such as http://127.0.0.1:8222, where the doctor reads how often the server
	// writes to disk. Empty: the doctor says that it does not know.
	Monitoring string
}

// Connection is how to connect.
type Connection struct {
	// Servers are the addresses (host:port, or nats://host:port) to find the cluster by.
	Servers []string

	// TLS enables TLS; nil: plain text, unless the server insists.
	TLS *tls.Config

	// At most one kind of login: User and Password, Token, CredentialsFile (a user's JWT and seed) or NKeyFile (a seed).
	User, Password, Token     string
	CredentialsFile, NKeyFile string

	// Logger receives warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultTimeout = 10 * time.Second
	DefaultSource  = "outrider"

	minTimeout = 100 * time.Millisecond
)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c Config) WithDefaults() (Config, error) {
	c.Format = cmp.Or(c.Format, format.Watermill)
	f, formatErr := format.Parse(string(c.Format))
	c.Format = f
	c.CloudEventsSource = cmp.Or(c.CloudEventsSource, DefaultSource)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	errs := []error{formatErr, c.complete()}
	if c.Subject == "" {
		errs = append(errs, errors.New(`subject: none given: use a subject or a template such as "orders.{{.Type}}"`))
	}
	if c.Stream != "" && checkStream(c.Stream) != nil {
		errs = append(errs, checkStream(c.Stream))
	}
	if c.Timeout < minTimeout {
		errs = append(errs, fmt.Errorf("timeout: %v is too short: use at least %v", c.Timeout, minTimeout))
	}
	return c, errors.Join(errs...)
}

// complete fills in defaults, or says what is wrong.
func (c *Connection) complete() error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(c.Servers) == 0 {
		return errors.New("servers: none given: list at least one host:port")
	}
	logins := 0
	for _, login := range []string{c.User, c.Token, c.CredentialsFile, c.NKeyFile} {
		if login != "" {
			logins++
		}
	}
	if logins > 1 {
		return errors.New("login: user, token, credentials file and nkey file exclude each other: give one")
	}
	return nil
}

// topics returns the subjects that the configuration leads to.
func (c *Config) topics() (*broker.Topics, error) {
	return broker.NewTopics(broker.TopicsConfig{Noun: "subject", List: "subjects", Template: c.Subject, Valid: CheckSubject, Reserved: reserved, Allowed: c.Allowed})
}

// reserved refuses the subjects of the servers.
func reserved(subject string) error {
	if subject[0] == '$' || subject[0] == '_' {
		return fmt.Errorf("subject %q begins with %c, as the servers' own do; a template cannot lead there", subject, subject[0])
	}
	return nil
}

// maxName is the longest subject or name of a stream that is used.
const maxName = 255

// CheckSubject says why a message cannot be published to a subject: it is empty or too long, has an empty token, a wildcard, a space
// or a control character.
func CheckSubject(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) ||
		name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return fmt.Errorf("%q is not a valid subject: use up to %d characters in tokens that dots separate, without spaces, * and >", name, maxName)
	}
	return nil
}

// checkStream says why a stream cannot have a name.
func checkStream(name string) error {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`.*>/\`, r) || r == 0x7f }) {
		return fmt.Errorf(`stream: %q is not a valid name: use up to %d characters without spaces, dots, *, >, / and \`, name, maxName)
	}
	return nil
}
