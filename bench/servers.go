package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The variables that name the servers, as internal/testenv sets them.
const (
	envPostgres = "OUTRIDER_TEST_POSTGRES_URL"
	envKafka    = "OUTRIDER_TEST_KAFKA_BROKERS"
)

// partitions of a topic.
const partitions = 8

// objectInUse is PostgreSQL's code of an error.
const objectInUse = "55006"

// cleanupLimit bounds what is done after a run, when its context may be over.
const cleanupLimit = 30 * time.Second

// servers are PostgreSQL and Kafka, as the harness uses them.
type servers struct {
	postgres *url.URL
	brokers  []string
	kafka    *kgo.Client
	admin    *kadm.Client
}

// connect reads the environment; connections are made when they are needed.
func connect() (*servers, error) {
	return serversAt(os.Getenv(envPostgres), os.Getenv(envKafka))
}

// serversAt returns the servers at an URL and at addresses with commas.
func serversAt(postgres, brokers string) (*servers, error) {
	s := &servers{}
	var err error
	if s.postgres, err = url.Parse(postgres); err != nil || s.postgres.Host == "" {
		// The parser's own error repeats the URL, and with it the password.
		return nil, errors.New(envPostgres + " is no URL such as postgres://user@host:port/database; `make bench` starts the servers and sets it")
	}
	for b := range strings.SplitSeq(brokers, ",") {
		if b = strings.TrimSpace(b); b != "" {
			s.brokers = append(s.brokers, b)
		}
	}
	if len(s.brokers) == 0 {
		return nil, errors.New(envKafka + " is empty; `make bench` starts the servers and sets it")
	}
	kafka, err := connectTo(s.brokers)
	if err != nil {
		return nil, err
	}
	s.kafka, s.admin = kafka.kafka, kafka.admin
	return s, nil
}

// connectTo returns servers of which only Kafka can be used.
func connectTo(brokers []string) (*servers, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	return &servers{brokers: brokers, kafka: client, admin: kadm.NewClient(client)}, nil
}

func (s *servers) close() { s.kafka.Close() }

// uniqueName returns a name for a database or topic that is used by nothing else and
// that shows its origin.
func uniqueName() string { return "outrider_bench_" + strings.ToLower(rand.Text()) }

// createDatabase makes an empty database and returns its URL and what drops it.
func (s *servers) createDatabase(ctx context.Context) (string, func() error, error) {
	name := uniqueName()
	if err := s.execOn(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	u := *s.postgres
	u.Path = "/" + name
	drop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		// A relay that was killed may have left a slot.
		err := onURL(ctx, u.String(), dropSlots)
		if err := errors.Join(err, s.execOn(ctx, "DROP DATABASE "+name+" WITH (FORCE)")); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	}
	return u.String(), drop, nil
}

// dropSlots drops the replication slots of the connection's database, whoever
// still reads one: with a slot, a database cannot be dropped.
func dropSlots(ctx context.Context, db *pgx.Conn) error {
	return poll(ctx, cleanupLimit, "a replication slot of the database is still read", func() (bool, error) {
		_, err := db.Exec(ctx, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
			WHERE database = current_database() AND active_pid IS NOT NULL`)
		if err != nil {
			return false, fmt.Errorf("end readers of replication slots: %w", err)
		}
		_, err = db.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
			WHERE database = current_database()`)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == objectInUse {
			return false, nil // the reader is about to end
		}
		if err != nil {
			return false, fmt.Errorf("drop replication slots: %w", err)
		}
		return true, nil
	})
}

// execOn runs a statement in the database that the environment names.
func (s *servers) execOn(ctx context.Context, statement string) error {
	return s.on(ctx, func(ctx context.Context, db *pgx.Conn) error {
		_, err := db.Exec(ctx, statement)
		return err
	})
}

// on connects to the database that the environment names, for what do does there.
func (s *servers) on(ctx context.Context, do func(ctx context.Context, db *pgx.Conn) error) error {
	return onURL(ctx, s.postgres.String(), do)
}

// with returns the same servers, but for PostgreSQL.
func (s *servers) with(postgres string) (*servers, error) {
	other := *s
	var err error
	other.postgres, err = url.Parse(postgres)
	return &other, err
}

func onURL(ctx context.Context, url string, do func(ctx context.Context, db *pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, db), db.Close(context.WithoutCancel(ctx)))
}

// createTopic makes an empty topic and returns its name and what deletes it.
func (s *servers) createTopic(ctx context.Context) (string, func() error, error) {
	name := uniqueName()
	remove, err := s.createTopicNamed(ctx, name)
	return name, remove, err
}

// createTopicNamed makes an empty topic and returns what deletes it.
func (s *servers) createTopicNamed(ctx context.Context, name string) (func() error, error) {
	if _, err := s.admin.CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		return nil, fmt.Errorf("create topic %s: %w", name, err)
	}
	remove := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		if _, err := s.admin.DeleteTopic(ctx, name); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
		return nil
	}
	// The broker answers before it serves the topic.
	err := poll(ctx, cleanupLimit, "topic "+name+" was created and is not served", func() (bool, error) {
		_, _, err := s.endOffsets(ctx, name)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.LeaderNotAvailable) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}

// endOffsets returns where each partition of the topic ends, and the sum: as
// nothing is deleted and no transactions are used, the number of records.
func (s *servers) endOffsets(ctx context.Context, topic string) (ends map[int32]int64, records int, err error) {
	listed, err := s.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("end offsets of topic %s: %w", topic, err)
	}
	ends = map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		ends[o.Partition] = o.Offset
		records += int(o.Offset)
	})
	return ends, records, nil
}

// poll asks again and again until the answer is yes. The error after the limit
// says what was waited for.
func poll(ctx context.Context, limit time.Duration, reason string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %v in vain: %s", limit, reason))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
