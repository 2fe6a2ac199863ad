package assembly

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/amqp"
	"github.com/outriderhq/outrider/adapters/http"
	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/adapters/nats"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/redis"
	"github.com/outriderhq/outrider/adapters/river"
	"github.com/outriderhq/outrider/adapters/webhook"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// TestDefaultsOfEveryAdapterAreThoseOfTheConfiguration compares, for each technology,
// what comes of a section with only its required keys with what comes of a Go
// configuration with only its required fields. A new technology has a line here.
func TestDefaultsOfEveryAdapterAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("t", []byte(`
state: {url: /tmp/state.db}
sources:
  own: {type: postgres, url: postgres://app@127.0.0.1/db}
  file: {type: sqlite, path: /tmp/app.db}
  queue: {type: postgres, url: postgres://app@127.0.0.1/db, layout: custom, table: t, queue: {key: k, type: t, payload: p, status: s, created: c, claimed: l}}
  in: {type: http, listen: "127.0.0.1:1"}
  stream: {type: nats, url: "nats://127.0.0.1:1", stream: s}
destinations:
  kafka: {type: kafka, brokers: ["127.0.0.1:1"], topic: t}
  nats: {type: nats, url: "nats://127.0.0.1:1", subject: s}
  amqp: {type: amqp, url: "amqp://127.0.0.1:1/", routing_key: k}
  redis: {type: redis, addresses: "127.0.0.1:1", stream: s, wait: {replicas: 1}}
  http: {type: http, url: "http://127.0.0.1:1/"}
  webhook: {type: webhook, url: "https://example.com/", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}
  river: {type: river, url: postgres://app@127.0.0.1/db}
  sql: {type: sql, url: postgres://app@127.0.0.1/other}
routes:
  r: {from: own, to: river}
  g: {from: own, to: sql}
  a: {from: own, to: kafka}
  b: {from: own, to: http}
  c: {from: own, to: webhook}
  d: {from: in, to: http}
  e: {from: file, to: http}
  f: {from: queue, to: http}
  h: {from: own, to: amqp}
  i: {from: own, to: redis}
  j: {from: own, to: nats}
  k: {from: stream, to: http}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	at := site{&Builder{Config: cfg, log: slog.Default()}, "x"}
	// The registries say what there is; those not compared have no defaults of their own.
	none := map[string]bool{"log": true, "statistics": true, "discard": true, "publisher": true, "listeners": true}
	compared := map[string]bool{}
	same := func(kind string, got any, gotErr error, want any, wantErr error) {
		t.Helper()
		compared[kind] = true
		if gotErr != nil || wantErr != nil {
			t.Fatal(kind, gotErr, wantErr)
		}
		g, w := reflect.ValueOf(got), reflect.ValueOf(want)
		for i := range g.NumField() {
			a, b := g.Field(i), w.Field(i)
			if a.Kind() == reflect.Func || a.Type() == reflect.TypeFor[*slog.Logger]() || a.IsZero() && b.IsZero() ||
				(a.Kind() == reflect.Map || a.Kind() == reflect.Slice) && a.Len() == 0 && b.Len() == 0 {
				continue
			}
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				t.Errorf("%s: %s is %v by the file, and %v in Go", kind, g.Type().Field(i).Name, a, b)
			}
		}
	}
	fromFile, err := kafkaConfig(at, cfg.Destinations["kafka"].(*config.Kafka))
	k, kErr := fromFile.WithDefaults()
	k2, k2Err := kafka.Config{Brokers: fromFile.Brokers, Topic: "t"}.WithDefaults()
	same("kafka", k, first(err, kErr), k2, k2Err)

	published, err := amqpConfig(cfg.Destinations["amqp"].(*config.AMQP))
	m, mErr := published.WithDefaults()
	m2, m2Err := amqp.Config{URL: published.URL, RoutingKey: "k"}.WithDefaults()
	same("amqp", m, first(err, mErr), m2, m2Err)

	added, err := redisConfig(at, cfg.Destinations["redis"].(*config.Redis))
	d, dErr := added.WithDefaults()
	d2, d2Err := redis.Config{Servers: redis.Servers{Addresses: added.Addresses}, Stream: "s", Replicas: 1}.WithDefaults()
	same("redis", d, first(err, dErr), d2, d2Err)
	streamed, err := natsConfig(at, cfg.Destinations["nats"].(*config.NATS))
	n, nErr := streamed.WithDefaults()
	n2, n2Err := nats.Config{Connection: nats.Connection{Servers: streamed.Servers, Logger: streamed.Logger}, Subject: "s"}.WithDefaults()
	same("nats", n, first(err, nErr), n2, n2Err)

	posted, err := httpConfig(cfg.Destinations["http"].(*config.HTTP))
	h, hErr := posted.WithDefaults()
	h2, h2Err := http.Config{URL: posted.URL}.WithDefaults()
	same("http", h, first(err, hErr), h2, h2Err)

	signed, err := webhookConfig(cfg.Destinations["webhook"].(*config.Webhook))
	w, wErr := signed.WithDefaults()
	w2, w2Err := webhook.Config{URL: signed.URL, Secrets: signed.Secrets}.WithDefaults()
	same("webhook", w, first(err, wErr), w2, w2Err)

	pool := &pgxpool.Pool{} // not looked at
	jobs := riverConfig(cfg.Destinations["river"].(*config.River))
	jobs.Pool = pool
	r, rErr := jobs.WithDefaults()
	r2, r2Err := river.Config{Pool: pool}.WithDefaults()
	same("river", r, rErr, r2, r2Err)

	rows := sqlConfig(cfg.Destinations["sql"].(*config.SQL))
	rows.Pool = pool
	o, oErr := rows.WithDefaults()
	o2, o2Err := outboxtable.Config{Pool: pool}.WithDefaults()
	same("sql", o, oErr, o2, o2Err)

	s, sErr := httpSubscriber(at, cfg.Sources["in"].(*config.HTTPSource)).WithDefaults()
	s2, s2Err := http.SubscriberConfig{Listen: "127.0.0.1:1"}.WithDefaults()
	same("http source", s, sErr, s2, s2Err)

	subscribed, err := natsSubscriber(at, cfg.Sources["stream"].(*config.NATSSource))
	u, uErr := subscribed.WithDefaults()
	u2, u2Err := nats.SubscriberConfig{Connection: nats.Connection{Servers: subscribed.Servers, Logger: subscribed.Logger}, Consumer: "outrider"}.WithDefaults()
	same("nats source", u, first(err, uErr), u2, u2Err)

	same("poll", new(Feed).pollOf(cfg.Sources["own"].(*config.Postgres).Poll), nil, router.Poll{}.WithDefaults(), nil)
	file, queue := cfg.Sources["file"].(*config.SQLite), cfg.Sources["queue"].(*config.Postgres)
	same("poll of SQLite", new(Feed).pollOf(file.Poll), nil, router.Poll{}.WithDefaults(), nil)
	same("claims", claimsOf(queue.Claims).WithDefaults(), nil, router.Claims{}.WithDefaults(), nil)
	same("queue", postgresTable{at, queue}.queue(), nil, queuetable.Config{Batch: queuetable.DefaultBatch, Timeout: queuetable.DefaultTimeout,
		MaxRow: adapters.DefaultMaxRow, Tables: []queuetable.Table{{Name: "t"}}, Layout: postgresTable{at, queue}.queue().Layout}, nil)
	if file.MaxRow != adapters.DefaultMaxRow || cfg.Sources["own"].(*config.Postgres).MaxRow != adapters.DefaultMaxRow {
		t.Errorf("max_row is %v, and %v in Go", file.MaxRow, adapters.DefaultMaxRow)
	}
	for kind := range destinationKinds {
		if !compared[kind] && !none[kind] {
			t.Errorf("the defaults of destination %s are not compared: add them to this test", kind)
		}
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
