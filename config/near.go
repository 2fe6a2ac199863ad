package config

import (
	"slices"
	"strings"
)

// meanings are names that keys have in other programs, without punctuation, with
// what they may be called here. The first one that a place knows counts.
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

// nearestKey returns the key that a misspelt or foreign one most likely means, or "".
func nearestKey(name string, keys []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
	}
	if len(name) > 64 {
		return "" // not a name
	}
	for _, key := range keys {
		if plain(key) == plain(name) {
			return key
		}
	}
	for _, meant := range meanings[plain(name)] {
		if slices.Contains(keys, meant) {
			return meant
		}
	}
	return nearest(name, keys)
}

// meant reports whether a key that is unknown at a place most likely means one that
// is missing there. It is reported once, with that one as its hint.
func meant(at place, key string, keys []string) bool {
	return slices.ContainsFunc(at.node.entries, func(e entry) bool {
		return !slices.Contains(keys, e.key.text) && nearestKey(e.key.text, keys) == key
	})
}
