package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A key that is misspelt, or has its name from another program, is one error with a
// hint that makes sense: never a key that merely looks alike, and nothing follows
// from it, such as that the right key is missing.
func TestMisspeltKeysSuggestWhatTheyMean(t *testing.T) {
	t.Parallel()
	const (
		source = `{type: postgres, url: "postgres://a@127.0.0.1/db?sslmode=disable"`
		kafka  = `{type: kafka, brokers: ["127.0.0.1:9092"], topic: t`
		url    = `"postgres://a@127.0.0.1/db?sslmode=disable"}`
	)
	for _, one := range []struct{ source, destination, route, top, hint string }{
		{source: "{type: postgres, dsn: " + url, hint: "did you mean url?"},
		{source: "{type: postgres, uri: " + url, hint: "did you mean url?"},
		{source: "{type: postgres, URL: " + url, hint: "did you mean url?"},
		{source: "{type: postgres, database_url: " + url, hint: "did you mean url?"},
		{source: "{type: sqlite, url: a.db}", hint: "did you mean path?"},
		{source: "{type: sqlite, dsn: a.db}", hint: "did you mean path?"},
		{source: source + ", batchsize: 5}", hint: "did you mean poll?"},
		{source: source + ", poll: {batch_size: 5}}", hint: "did you mean batch?"},
		{source: source + ", table_name: x}", hint: "did you mean table?"},
		{source: source + ", tabel: x}", hint: "did you mean table?"},
		{source: source + ", tables: [x]}", hint: "did you mean table? Otherwise"},
		{source: source + ", maxRow: 1MiB}", hint: "did you mean max_row?"},
		{source: source + ", ssl: true}", hint: "did you mean tls?"},
		{source: source + ", schema: x}", hint: "known keys"},
		{source: source + ", format: x}", hint: "known keys"},
		{destination: `{type: kafka, brokers: ["127.0.0.1:9092"], topic_template: t}`, hint: "did you mean topic?"},
		{destination: `{type: kafka, brokers: ["127.0.0.1:9092"], topics: [t]}`, hint: "add topic: "},
		{destination: `{type: kafka, addresses: ["127.0.0.1:9092"], topic: t}`, hint: "did you mean brokers?"},
		{destination: `{type: kafka, broker: "127.0.0.1:9092", topic: t}`, hint: "did you mean brokers?"},
		{destination: `{type: kafka, bootstrap_servers: "127.0.0.1:9092", topic: t}`, hint: "did you mean brokers?"},
		{destination: `{type: kafka, url: "127.0.0.1:9092", topic: t}`, hint: "did you mean brokers?"},
		{destination: `{type: kafka, brokers: [kafka:9092], topic: t}`, hint: "put it in quotes"},
		{destination: kafka + ", client_id: x}", hint: "known keys"},
		{destination: kafka + ", compress: gzip}", hint: "known keys"},
		{destination: kafka + ", retries: 3}", hint: "known keys"},
		{destination: kafka + ", password: x}", hint: "did you mean sasl?"},
		{route: ", retries: 3", hint: "did you mean middleware?"},
		{route: ", source: app", hint: "did you mean from?"},
		{route: ", filter: x", hint: "did you mean match?"},
		{route: ", match: {type: order.*}", hint: "did you mean types?"},
		{route: ", concurrency: 3", hint: "known keys"},
		{route: ", middleware: [{retry: {maxattempts: 5}}]", hint: "did you mean attempts?"},
		{route: ", middleware: [{retry: {retries: 5}}]", hint: "did you mean attempts?"},
		{route: ", middleware: [{retry: {backoff: 5s}}]", hint: "did you mean base?"},
		{route: ", middleware: [{retry: {max_delay: 5s}}]", hint: "did you mean max?"},
		{route: ", middleware: [{retries: {}}]", hint: "did you mean retry?"},
		{route: ", middleware: [{dlq: {}}]", hint: "did you mean poison?"},
		{route: ", middleware: [{rate_limit: 5/s}]", hint: "did you mean throttle?"},
		{route: ", middleware: [{log: {}}]", hint: "known: "},
		{top: "admin: {port: 8080}", hint: "did you mean listen?"},
		{top: "state: {dsn: x}", hint: "did you mean url?"},
		{top: "metrics: {}", hint: "known keys"},
		{top: "version: 1", hint: "known keys"},
	} {
		text := func(given, usual string) string {
			if given == "" {
				return usual
			}
			return given
		}
		file := fmt.Sprintf("sources:\n  app: %s\ndestinations:\n  bus: %s\nroutes:\n  orders: {from: app, to: bus%s}\n%s\n",
			text(one.source, source+"}"), text(one.destination, kafka+"}"), one.route, one.top)
		_, err := Parse("t.yaml", []byte(file), nil)
		var found *Errors
		if !errors.As(err, &found) || len(found.List) != 1 || !strings.HasPrefix(found.List[0].Hint, one.hint) {
			t.Errorf("want one error with the hint %q of\n%s\ngot\n%v", one.hint, file, err)
		}
	}
}

// A section under a wrong name is one error, and its names are not unknown as well.
func TestAMisspeltSectionIsOneError(t *testing.T) {
	t.Parallel()
	_, err := Parse("t.yaml", []byte(`
source:
  app: {type: sqlite, path: a.db}
destinations:
  bus: {type: discard}
routes:
  orders: {from: app, to: bus}
`), nil)
	var found *Errors
	if !errors.As(err, &found) || len(found.List) != 1 || found.List[0].Hint != "did you mean sources?" {
		t.Errorf("got\n%v", err)
	}
}
