// Package watermillsql reads a watermill-sql table with watermill-sql's own Subscriber, its
// consumer group and its table of offsets, for those who move over step by step.
//
// It costs what that Subscriber costs: one message at a time, a transaction that stays
// open for a batch, no row above the oldest transaction that is still running, and
// up to a batch again after a stop or an error. Package logtable reads the same table
// without any of this, and takes the offsets over (`start: offsets`).
package watermillsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider/outbox"
)

// Config configures a [Subscriber]. Pool and the tables are required.
type Config struct {
	Pool    *pgxpool.Pool  // Close closes it
	Table   pgx.Identifier // of the messages
	Offsets pgx.Identifier // of the consumer groups
	Group   string         // consumer group; "" is watermill-sql's default

	// Type is the event type of messages whose metadata names none, usually the topic.
	Type string

	// Keys says under which keys the metadata hold what Outrider looks for under its
	// own: by Outrider's key, such as outbox.MetaGroup.
	Keys map[string]string

	Batch int           // messages of one transaction. Default: 100
	Poll  time.Duration // pause when there are none. Default: 1 s

	// Logger takes what the Subscriber logs as an error. Default: slog.Default().
	Logger *slog.Logger
}

// ackDeadline is how long a message may wait for its verdict. Then the Subscriber
// gives it out again, though it may still be delivered.
const ackDeadline = 5 * time.Minute

// Subscriber is a Watermill message.Subscriber.
type Subscriber struct {
	cfg   Config
	db    *sql.DB
	inner *wmsql.Subscriber

	mu         sync.Mutex
	subscribed []<-chan *message.Message
}

var _ message.Subscriber = (*Subscriber)(nil)

// New returns a subscriber. It does not connect.
func New(cfg Config) (*Subscriber, error) {
	if cfg.Pool == nil || len(cfg.Table) == 0 || len(cfg.Offsets) == 0 {
		return nil, errors.New("watermill-sql subscriber: pool, table and offsets are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	deadline := ackDeadline
	s := &Subscriber{cfg: cfg, db: stdlib.OpenDBFromPool(cfg.Pool)}
	var err error
	s.inner, err = wmsql.NewSubscriber(s.db, wmsql.SubscriberConfig{
		ConsumerGroup: cfg.Group, AckDeadline: &deadline, PollInterval: cfg.Poll,
		SchemaAdapter: schema{wmsql.DefaultPostgreSQLSchema{
			GenerateMessagesTableName: func(string) string { return cfg.Table.Sanitize() }, SubscribeBatchSize: cfg.Batch}, &s.cfg},
		OffsetsAdapter: wmsql.DefaultPostgreSQLOffsetsAdapter{
			GenerateMessagesOffsetsTableName: func(string) string { return cfg.Offsets.Sanitize() }},
	}, errorLogger{log: cfg.Logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watermill-sql subscriber: %w", err), s.db.Close())
	}
	return s, nil
}

// Check looks for both tables.
func (s *Subscriber) Check(ctx context.Context) error {
	var n int
	for _, table := range []pgx.Identifier{s.cfg.Table, s.cfg.Offsets} {
		err := s.cfg.Pool.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM "+table.Sanitize()+" LIMIT 1) x").Scan(&n)
		if err != nil {
			return fmt.Errorf("table %s: %w; watermill-sql's Subscriber creates it with InitializeSchema", table.Sanitize(), err)
		}
	}
	return nil
}

// Subscribe takes the messages of the table; the topic, which names it, is not looked
// at.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	messages, err := s.inner.Subscribe(ctx, "topic")
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribed = append(s.subscribed, messages)
	}
	return messages, err
}

// Close ends subscriptions and closes the pool. When it returns, the channels of messages are closed:
// watermill-sql's Subscriber closes them a moment after its own Close has returned, and sends nothing any more.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.inner.Close()
	for _, messages := range s.subscribed {
		<-messages
	}
	s.subscribed = nil
	err = errors.Join(err, s.db.Close())
	s.cfg.Pool.Close()
	return err
}

// schema reads messages as watermill-sql does, and gives them Outrider's metadata.
type schema struct {
	wmsql.DefaultPostgreSQLSchema
	cfg *Config
}

// UnmarshalMessage implements watermill-sql's SchemaAdapter.
func (s schema) UnmarshalMessage(row wmsql.Scanner) (wmsql.Row, error) {
	r, err := s.DefaultPostgreSQLSchema.UnmarshalMessage(row)
	if err != nil {
		return r, err
	}
	m := r.Msg.Metadata
	for ours, theirs := range s.cfg.Keys {
		if v := m[theirs]; theirs != "" && v != "" {
			m[ours] = v
		}
	}
	if m[outbox.MetaType] == "" && s.cfg.Type != "" {
		m[outbox.MetaType] = s.cfg.Type
	}
	if m[outbox.MetaEncoding] == "" && outbox.CheckJSON(r.Msg.Payload) != nil {
		m[outbox.MetaEncoding] = outbox.EncodingBytes
	}
	return r, nil
}

// errorLogger logs errors only: the Subscriber retries, and says the rest too often.
type errorLogger struct {
	watermill.NopLogger
	log *slog.Logger
}

// Error implements watermill's LoggerAdapter.
func (l errorLogger) Error(msg string, err error, _ watermill.LogFields) {
	if !errors.Is(err, context.Canceled) {
		l.log.Warn("watermill-sql: "+msg, "error", err)
	}
}

// With implements watermill's LoggerAdapter.
func (l errorLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }
