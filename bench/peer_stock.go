package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// stock is the pipeline that Watermill's own parts make.
type stock struct{}

// Stock is that pipeline.
var Stock = stock{}

const (
	// stockTopic is the topic in watermill-sql's sense: part of a table's name.
	stockTopic = "events"

	// stockBatch is the subscriber's SubscribeBatchSize. Each of its reads sorts
	// what is left of the backlog, so fewer are better. With 30,000 rows, batches
	// of 1,000 to 30,000 came out alike and its default of 100 a fifth slower;
	// 10,000 keeps that so for deeper backlogs too.
	stockBatch = 10_000

	stockGroup = "group" // metadata key
)

func (stock) name() string { return "stock" }

func (stock) about() string {
	return fmt.Sprintf("watermill-sql Subscriber (SubscribeBatchSize %d) -> Router with Recoverer, Retry and Timeout -> "+
		"watermill-kafka Publisher (acks all, idempotent)", stockBatch)
}

func (stock) create(ctx context.Context, db *pgx.Conn) error {
	for _, q := range append(sql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries(stockTopic),
		sql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries(stockTopic)...) {
		if _, err := db.Exec(ctx, q.Query, q.Args...); err != nil {
			return err
		}
	}
	return fillFromEvents(ctx, db, `
		INSERT INTO watermill_events (uuid, payload, metadata, transaction_id)
		SELECT id, payload, json_build_object('group', message_group, 'type', 'order.created'), pg_current_xact_id()`)
}

// rewind also waits until no transaction of the whole server is older than the
// backlog: the subscriber would wait for it, on the clock.
func (stock) rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE watermill_offsets_events"); err != nil {
		return err
	}
	return poll(ctx, time.Minute, "a transaction that is older than the backlog is open on the server; "+
		"the stock subscriber reads nothing until it ends", func() (bool, error) {
		var visible bool
		err := db.QueryRow(ctx, `SELECT max(transaction_id::text::bigint) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
			FROM watermill_events`).Scan(&visible)
		return visible, err
	})
}

func (stock) backlog() string {
	return `SELECT metadata->>'group', payload::text FROM watermill_events ORDER BY "offset"`
}

func (s stock) relay(ctx context.Context, j job) error {
	log := watermill.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	db, err := stdsql.Open("pgx", j.Postgres)
	if err != nil {
		return err
	}
	sub, err := sql.NewSubscriber(db, sql.SubscriberConfig{
		SchemaAdapter:  sql.DefaultPostgreSQLSchema{SubscribeBatchSize: stockBatch},
		OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{},
	}, log)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	pub, err := kafka.NewPublisher(stockProducer(j), log)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(s.route(ctx, sub, pub, j.Topic, log), sub.Close(), pub.Close(), db.Close())
}

// route runs a router until ctx ends. It publishes in the handler, so that the
// middleware covers publishing.
func (stock) route(ctx context.Context, sub message.Subscriber, pub message.Publisher, topic string, log watermill.LoggerAdapter) error {
	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		return err
	}
	router.AddMiddleware(middleware.Recoverer,
		middleware.Retry{MaxRetries: 10, InitialInterval: 200 * time.Millisecond, Logger: log}.Middleware,
		middleware.Timeout(30*time.Second))
	router.AddConsumerHandler("orders", stockTopic, sub, func(msg *message.Message) error {
		return pub.Publish(topic, msg)
	})
	return router.Run(ctx)
}

// stockProducer asks of the publisher what the other peers give: the group as
// the key, acks of all replicas, and no duplicates from retries.
func stockProducer(j job) kafka.PublisherConfig {
	cfg := kafka.DefaultSaramaSyncPublisherConfig()
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Idempotent = true
	cfg.Net.MaxOpenRequests = 1 // idempotence needs it, and a message at a time needs no more
	return kafka.PublisherConfig{
		Brokers:               j.Brokers,
		OverwriteSaramaConfig: cfg,
		Marshaler: kafka.NewWithPartitioningMarshaler(func(_ string, msg *message.Message) (string, error) {
			return msg.Metadata.Get(stockGroup), nil
		}),
	}
}
