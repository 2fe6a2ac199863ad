// Package watermillpubsub_test runs the configuration of this folder as it is.
package watermillpubsub_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/IBM/sarama"
	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib" // watermill-sql needs database/sql

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

const orders = 6

func TestBothReceiversGetAllOrdersInOrder(t *testing.T) {
	t.Setenv("DATABASE_URL", testenv.Postgres(t))
	brokers := testenv.Kafka(t)
	topic := fmt.Sprintf("example-watermillpubsub-%d", os.Getpid())
	t.Setenv("KAFKA_BROKER", brokers[0])
	t.Setenv("ORDERS_TOPIC", topic)
	publish(t)
	receivers := map[string]<-chan *message.Message{"kafka": fromKafka(t, brokers, topic), "http": fromHTTP(t)}

	cfg, err := outrider.LoadConfig("outrider.yaml")
	must(t, err)
	cfg.Admin.Listen = "off"
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	for name, messages := range receivers {
		byCustomer := map[string]int{}
		for range orders {
			select {
			case msg := <-messages:
				customer := msg.Metadata["customer"]
				if want := fmt.Sprintf(`{"order": "%s-%d"}`, customer, byCustomer[customer]); string(msg.Payload) != want {
					t.Errorf("%s: customer %s: %s, want %s", name, customer, msg.Payload, want)
				}
				byCustomer[customer]++
				msg.Ack()
			case err := <-done:
				t.Fatalf("%s: the relay ended early: %v", name, err)
			}
		}
	}
	stop()
	must(t, <-done)
}

// publish writes the orders of two customers by watermill-sql's Publisher, in one transaction.
func publish(t *testing.T) {
	t.Helper()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	queries := append(wmsql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries("orders"),
		wmsql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries("orders")...)
	for _, q := range queries {
		_, err := db.ExecContext(t.Context(), q.Query, q.Args...)
		must(t, err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	pub, err := wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: wmsql.DefaultPostgreSQLSchema{}}, nil)
	must(t, err)
	for i := range orders {
		customer := []string{"heron", "kite"}[i%2]
		msg := message.NewMessage(fmt.Sprintf("order-%d", i), fmt.Appendf(nil, `{"order": "%s-%d"}`, customer, i/2))
		msg.Metadata.Set("customer", customer)
		must(t, pub.Publish("orders", msg))
	}
	must(t, tx.Commit())
}

// fromKafka subscribes by watermill-kafka's Subscriber.
func fromKafka(t *testing.T, brokers []string, topic string) <-chan *message.Message {
	t.Helper()
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: brokers, OverwriteSaramaConfig: settings, Unmarshaler: kafka.DefaultMarshaler{},
		InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}}, nil)
	must(t, err)
	t.Cleanup(func() {
		must(t, sub.Close())
		client, err := sarama.NewClusterAdmin(brokers, nil)
		must(t, err)
		must(t, client.DeleteTopic(topic))
		must(t, client.Close())
	})
	must(t, sub.SubscribeInitialize(topic))
	messages, err := sub.Subscribe(t.Context(), topic)
	must(t, err)
	return messages
}

// fromHTTP subscribes by watermill-http's Subscriber.
func fromHTTP(t *testing.T) <-chan *message.Message {
	t.Helper()
	sub, err := wmhttp.NewSubscriber("127.0.0.1:0", wmhttp.SubscriberConfig{}, nil)
	must(t, err)
	messages, err := sub.Subscribe(t.Context(), "/orders")
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sub.StartHTTPServer() // returns that it was closed
	}()
	t.Cleanup(func() {
		must(t, sub.Close())
		<-ended
	})
	for sub.Addr() == nil {
		time.Sleep(time.Millisecond) // until it listens
	}
	t.Setenv("PARTNER_URL", "http://"+sub.Addr().String()+"/orders")
	return messages
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
