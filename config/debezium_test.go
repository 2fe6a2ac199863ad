package config

import "testing"

func TestBrokersTakeTheFormatOfDebezium(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("outrider.yaml", []byte(`
sources:
  app: {type: postgres, url: "postgres://a@127.0.0.1/db?sslmode=disable", layout: debezium, header_columns: [{column: type, header: eventType}]}
destinations:
  kafka: {type: kafka, brokers: ["127.0.0.1:9092"], topic: t, format: debezium, source: shop, debezium: {value: json, expand: true}}
  nats: {type: nats, url: "nats://127.0.0.1:4222", subject: t, format: debezium, source: shop, debezium: {tombstone: true}}
  amqp: {type: amqp, url: "amqp://127.0.0.1", routing_key: t, format: debezium, source: shop, debezium: {value: base64}}
  redis: {type: redis, addresses: "127.0.0.1:6379", stream: t, format: debezium, source: shop, debezium: {value: json}}
  plain: {type: kafka, brokers: ["127.0.0.1:9092"], topic: t, format: debezium}
  other: {type: discard}
routes:
  r: {from: app, to: kafka}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Debezium{"kafka": {Value: "json", Expand: true}, "nats": {Value: "string", Tombstone: true}, "amqp": {Value: "base64"}, "redis": {Value: "json"}} {
		if got := DebeziumOf(cfg.Destinations[name]); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"plain", "other"} {
		if got := DebeziumOf(cfg.Destinations[name]); got != nil {
			t.Errorf("%s changes payloads: %+v", name, got)
		}
	}
}
