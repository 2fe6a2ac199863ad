package watermillsql

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider/internal/testenv"
)

// topics is a [Subscriber] for each topic: one reads a single table, which it does not make.
type topics struct {
	t          *testing.T
	url, group string

	mu   sync.Mutex
	subs []*Subscriber
}

// bytesTable is watermill-sql's schema with payloads that need not be JSON: the suite publishes "x". A table that refused it would make
// the suite hang: where Publish fails, its twenty publishers in TestPublisherClose end without a word.
var bytesTable = wmsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}

// SubscribeInitialize makes the tables, as their owner does before Outrider reads them.
func (t *topics) SubscribeInitialize(topic string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, t.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	queries := append(bytesTable.SchemaInitializingQueries(topic),
		wmsql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries(topic)...)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(1)"); err != nil { // CREATE TABLE IF NOT EXISTS is not safe beside itself
			return err
		}
		for _, q := range queries {
			if _, err := tx.Exec(ctx, q.Query, q.Args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Subscribe subscribes to the topic's table.
func (t *topics) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := t.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(context.Background(), t.url+"&pool_max_conns=4")
	if err != nil {
		return nil, err
	}
	sub, err := New(Config{Pool: pool, Table: pgx.Identifier{"watermill_" + topic}, Offsets: pgx.Identifier{"watermill_offsets_" + topic}, Group: t.group})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.subs = append(t.subs, sub)
	t.mu.Unlock()
	return sub.Subscribe(ctx, topic)
}

// Close closes all.
func (t *topics) Close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sub := range t.subs {
		err = errors.Join(err, sub.Close())
	}
	t.subs = nil
	return err
}

// TestCloseClosesTheChannels: Close returns when the channels of messages are closed, not a moment before.
func TestCloseClosesTheChannels(t *testing.T) {
	t.Parallel()
	sub := &topics{t: t, url: testenv.Postgres(t), group: "test"}
	for range 100 {
		messages, err := sub.Subscribe(t.Context(), "closing")
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-messages:
		default:
			t.Fatal("the channel of messages is still open")
		}
	}
}

// TestWatermillsUniversalSuite runs Watermill's own suite with watermill-sql's Publisher and a [Subscriber] for each topic.
func TestWatermillsUniversalSuite(t *testing.T) {
	t.Parallel()
	url := testenv.StartPostgres(t).URL() // a transaction of others would stall it
	if !strings.Contains(url, "?") {
		url += "?"
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	withGroup := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		pub, err := wmsql.NewPublisher(db, wmsql.PublisherConfig{SchemaAdapter: bytesTable}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		sub := &topics{t: t, url: url, group: group}
		t.Cleanup(func() { _ = sub.Close() }) // the suite closes most of them
		return pub, sub
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, GuaranteedOrder: true, Persistent: true, ForceShort: true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return withGroup(t, "test")
	}, withGroup)
}
