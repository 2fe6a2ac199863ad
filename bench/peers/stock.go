package peers

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// stock is a pipeline of Watermill's own parts.
type stock struct{}

// Stock is the stock Watermill pipeline.
var Stock = stock{}

// StockRows writes the messages of a transaction of a [measure.Flow].
const StockRows = `INSERT INTO watermill_events (uuid, payload, metadata, transaction_id)
	SELECT id, payload::json, json_build_object('group', name, 'type', 'order.created'), pg_current_xact_id() FROM unnest($1::text[], $2::text[], $3::text[]) AS m(id, name, payload)`

const (
	// stockTopic is the topic in watermill-sql's sense: part of a table's name.
	stockTopic = "events"

	// stockBatch is the subscriber's SubscribeBatchSize. Each read sorts the rest of
	// the backlog, so fewer reads are better. With 30,000 rows, batches of 1,000 to
	// 30,000 are equally fast and its default of 100 is a fifth slower; 10,000 also
	// suits deeper backlogs.
	stockBatch = 10_000

	stockGroup = "group" // metadata key
)

func (stock) Name() string { return "stock" }

func (stock) About() string {
	return fmt.Sprintf("watermill-sql Subscriber (SubscribeBatchSize %d) -> Router with Recoverer, Retry and Timeout -> "+
		"watermill-kafka Publisher (acks all, idempotent)", stockBatch)
}

func (stock) Create(ctx context.Context, db *pgx.Conn) error {
	for _, q := range append(sql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries(stockTopic),
		sql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries(stockTopic)...) {
		if _, err := db.Exec(ctx, q.Query, q.Args...); err != nil {
			return err
		}
	}
	return measure.FillFromEvents(ctx, db, `
		INSERT INTO watermill_events (uuid, payload, metadata, transaction_id)
		SELECT id, payload, json_build_object('group', message_group, 'type', 'order.created'), pg_current_xact_id()`)
}

// Rewind also waits until no transaction of the server is older than the backlog:
// otherwise the subscriber would wait for it while the clock runs.
func (stock) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE watermill_offsets_events"); err != nil {
		return err
	}
	return measure.Poll(ctx, time.Minute, "a transaction that is older than the backlog is open on the server; "+
		"the stock subscriber reads nothing until it ends", func() (bool, error) {
		var visible bool
		err := db.QueryRow(ctx, `SELECT max(transaction_id::text::bigint) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
			FROM watermill_events`).Scan(&visible)
		return visible, err
	})
}

func (stock) Backlog() string {
	return `SELECT metadata->>'group', payload::text FROM watermill_events ORDER BY "offset"`
}

func (s stock) Relay(ctx context.Context, j measure.Job) error {
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

// stockProducer configures the publisher like the other peers: the group as the key,
// acks of all replicas, and no duplicates from retries.
func stockProducer(j measure.Job) kafka.PublisherConfig {
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
