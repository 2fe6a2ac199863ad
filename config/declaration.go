package config

import (
	"reflect"

	"github.com/outriderhq/outrider/config/internal/form"
)

// The types of values, whose decoder is package form.
type (
	// Error is one mistake in a configuration, or a warning. None of its fields holds a secret.
	Error = form.Error
	// Errors lists all mistakes of a configuration, in order of line.
	Errors = form.Errors
	// Secret is a text that no way of printing shows. The zero value is "not set".
	Secret = form.Secret
	// SecretURL is a URL (or path) that prints without its password and parameters.
	SecretURL = form.SecretURL
	// File is the path of a file.
	File = form.File
	// Duration is a span of time, never negative.
	Duration = form.Duration
	// Size is a number of bytes.
	Size = form.Size
	// Rate is a number of events per unit of time.
	Rate = form.Rate
)

// NewSecret makes a secret of a text; an empty text is "not set".
func NewSecret(text string) Secret { return form.NewSecret(text) }

// NewSecretURL makes a secret URL of its text.
func NewSecretURL(text string) SecretURL { return form.NewSecretURL(text) }

// ParseDuration reads a duration as the file writes it.
func ParseDuration(text string) (d Duration, err error) { return form.Read[Duration](text) }

// ParseRate reads a rate as the file writes it.
func ParseRate(text string) (r Rate, err error) { return form.Read[Rate](text) }

// declaration is the configuration as the decoder knows it.
var declaration = form.New(form.Declaration{
	Root: reflect.TypeFor[Config](), Registries: []*form.Registry{sources, destinations, middlewares},
	Words: presetWords, Names: routeName, Meanings: meanings, Check: checkSection,
})

// checkSection checks a section that has rules beyond its tags.
func checkSection(section any, c *form.Checker, at form.Location) {
	if s, ok := section.(interface {
		check(c *form.Checker, at form.Location)
	}); ok {
		s.check(c, at)
	}
}

// Schema returns the JSON Schema (draft 2020-12) of the configuration file, for
// editors. References between names, the order
// of middleware and the like are beyond a schema: they are checked when a file is loaded.
func Schema() []byte { return declaration.Schema("Outrider configuration") }

// meanings are names that keys have in other programs, without punctuation, with
// their names here. The first one that a section has counts.
var meanings = map[string][]string{
	"dsn": {"url", "path"}, "uri": {"url", "path"}, "connection": {"url"}, "connectionstring": {"url"}, "connectionurl": {"url"},
	"databaseurl": {"url"}, "database": {"url", "state"}, "db": {"url"}, "endpoint": {"url"}, "host": {"url", "brokers"}, "file": {"path"},
	"path": {"url"}, "filename": {"path"}, "servers": {"brokers"}, "bootstrapservers": {"brokers"}, "bootstrap": {"brokers"},
	"hosts": {"brokers"}, "addresses": {"brokers"}, "urls": {"brokers", "url"}, "url": {"brokers", "path"},
	"address": {"url", "listen"}, "addr": {"url", "listen"}, "port": {"listen"}, "bind": {"listen"},
	"topictemplate": {"topic"}, "topicname": {"topic"}, "tablename": {"table"}, "tables": {"table"},
	"ssl": {"tls"}, "sslmode": {"tls"}, "notify": {"wake"}, "pollinterval": {"poll"}, "polling": {"poll"}, "interval": {"poll", "every", "base"},
	"batchsize": {"batch", "poll"}, "retain": {"retention"}, "cleanup": {"retention"}, "maxpayload": {"max_row"},
	"filter": {"match"}, "source": {"from"}, "src": {"from"}, "destination": {"to"}, "dest": {"to"}, "dst": {"to"},
	"sink": {"to"}, "sinks": {"destinations"}, "publishers": {"destinations"}, "outputs": {"destinations"}, "inputs": {"sources"}, "ordering": {"order"},
	"retries": {"attempts", "retry", "middleware"}, "maxretries": {"attempts"}, "maxattempts": {"attempts"}, "tries": {"attempts"}, "retry": {"middleware"},
	"backoff": {"base"}, "delay": {"base"}, "initialdelay": {"base"}, "initialinterval": {"base"}, "initialbackoff": {"base"},
	"maxdelay": {"max"}, "maxbackoff": {"max"}, "maxinterval": {"max"},
	"dlq": {"poison"}, "deadletter": {"poison"}, "deadletterqueue": {"poison"}, "ratelimit": {"throttle"}, "ratelimiter": {"throttle"},
	"circuitbreaker": {"breaker"}, "deduplicate": {"dedupe"}, "deduplication": {"dedupe"}, "trace": {"tracing"},
	"signingsecret": {"secrets"}, "bearer": {"token"}, "bearertoken": {"token"}, "authtoken": {"token"}, "username": {"sasl"}, "password": {"sasl"},
	"loglevel": {"log"}, "logging": {"log"}, "store": {"state"}, "memorylimit": {"memory"}, "maxmemory": {"memory"},
	"drain": {"drain_timeout"}, "shutdowntimeout": {"drain_timeout"}, "aggregate": {"aggregate_types"},
}
