package faults_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

// debeziumRecord is what a consumer sees of a message in Debezium's format.
type debeziumRecord struct {
	headers map[string]string
	value   string
}

// debeziumStores are brokers other than Kafka: the section of the configuration, and what is stored.
var debeziumStores = map[string]func(t *testing.T) (section string, read func() []debeziumRecord){
	"nats": func(t *testing.T) (string, func() []debeziumRecord) {
		s := natsserver.StartProcess(t)
		conn, err := nats.Connect(s.URL())
		must(t, err)
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		must(t, err)
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"outbox.>"}, AllowAtomicPublish: true})
		must(t, err)
		return fmt.Sprintf(`type: nats, url: %q, subject: "outbox.event.{{.AggregateType}}", subjects: ["outbox.event.*"]`, s.URL()), func() (out []debeziumRecord) {
			info, err := stream.Info(t.Context())
			must(t, err)
			for n := uint64(1); n <= info.State.LastSeq; n++ {
				msg, err := stream.GetMsg(t.Context(), n)
				must(t, err)
				headers := map[string]string{}
				for k := range msg.Header {
					headers[k] = msg.Header.Get(k)
				}
				out = append(out, debeziumRecord{headers, string(msg.Data)})
			}
			return out
		}
	},
	"amqp": func(t *testing.T) (string, func() []debeziumRecord) {
		conn, err := amqp.Dial(testenv.RabbitMQ(t))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		ch, err := conn.Channel()
		must(t, err)
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		must(t, err)
		var all []debeziumRecord
		return fmt.Sprintf(`type: amqp, url: %q, routing_key: %q`, testenv.RabbitMQ(t), q.Name), func() []debeziumRecord {
			for {
				msg, ok, err := ch.Get(q.Name, true)
				must(t, err)
				if !ok {
					return all
				}
				headers := map[string]string{}
				for k, v := range msg.Headers {
					headers[k] = fmt.Sprint(v)
				}
				all = append(all, debeziumRecord{headers, string(msg.Body)})
			}
		}
	},
	"redis": func(t *testing.T) (string, func() []debeziumRecord) {
		s := testenv.StartRedis(t)
		client := redis.NewClient(&redis.Options{Addr: s.Address()})
		t.Cleanup(func() { _ = client.Close() })
		return fmt.Sprintf(`type: redis, addresses: [%q], stream: "outbox.event.{{.AggregateType}}", streams: ["outbox.event.*"]`, s.Address()), func() (out []debeziumRecord) {
			entries, err := client.XRange(t.Context(), "outbox.event.Order", "-", "+").Result()
			must(t, err)
			for _, e := range entries {
				r := debeziumRecord{headers: map[string]string{}}
				for k, v := range e.Values {
					r.headers[k] = fmt.Sprint(v)
				}
				r.value = r.headers["payload"]
				delete(r.headers, "payload")
				out = append(out, r)
			}
			return out
		}
	},
}

// Debezium's records reach brokers other than Kafka with the same headers and values.
func TestDebeziumsFormatOnOtherBrokers(t *testing.T) {
	for kind, begin := range debeziumStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			section, read := begin(t)
			db.exec(`CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL,
    payload jsonb, tenant text)`)
			config := fmt.Sprintf(`admin: {listen: off}
%s
sources:
  app: {type: postgres, url: %q, layout: debezium, poll: {max: 50ms}, header_columns: [{column: type, header: eventType}, {column: tenant}]}
destinations:
  bus: {%s, format: debezium, source: shop, debezium: {value: json, expand: true}}
routes: {outbox: {from: app, to: bus}}
`, strings.Join(quick, "\n"), db.url, section)
			initialise(t, config)
			r := start(t, config)
			const a, b = "6f2b0c1e-0000-4000-8000-000000000001", "6f2b0c1e-0000-4000-8000-000000000002"
			db.exec(`INSERT INTO outbox VALUES ($1, 'Order', '7', 'created', '{"b": 1, "n": null, "a": [1]}', 'acme')`, a)
			db.exec(`INSERT INTO outbox VALUES ($1, 'Order', '7', 'paid', '"text"', NULL)`, b)
			var got []debeziumRecord
			r.until("delivers both", func() bool {
				got = read()
				return len(got) >= 2
			})
			r.stop()
			connector := map[string]string{"__debezium.context.connectorLogicalName": "shop", "__debezium.context.taskId": "0", "__debezium.context.connectorName": "postgresql"}
			for i, want := range []debeziumRecord{
				{map[string]string{"id": a, "eventType": "created", "tenant": "acme"}, `{"a":[1],"b":1}`},
				{map[string]string{"id": b, "eventType": "paid"}, `"\"text\""`},
			} {
				maps.Copy(want.headers, connector)
				maps.DeleteFunc(got[i].headers, func(k, _ string) bool { return strings.HasPrefix(k, "Nats-") })
				if !maps.Equal(got[i].headers, want.headers) || got[i].value != want.value {
					t.Errorf("record %d is %v, want %v", i, got[i], want)
				}
			}
		})
	}
}
