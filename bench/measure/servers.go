package measure

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

// objectInUse is an SQLSTATE of PostgreSQL.
const objectInUse = "55006"

// CleanupLimit limits the cleanup after a run, whose context may have ended.
const CleanupLimit = 30 * time.Second

// Servers are the PostgreSQL and the Kafka of the benchmark.
type Servers struct {
	postgres *url.URL
	brokers  []string
	kafka    *kgo.Client
	admin    *kadm.Client
}

// Connect returns a PostgreSQL and the Kafka that the environment names. Without a URL, PostgreSQL is that of the
// environment, too. It opens no connection.
func Connect(postgres string) (*Servers, error) {
	if postgres == "" {
		postgres = os.Getenv(envPostgres)
	}
	return ServersAt(postgres, os.Getenv(envKafka))
}

// ServersAt returns the servers at a URL and at comma-separated addresses.
func ServersAt(postgres, brokers string) (*Servers, error) {
	s := &Servers{}
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
	kafka, err := ConnectTo(s.brokers)
	if err != nil {
		return nil, err
	}
	s.kafka, s.admin = kafka.kafka, kafka.admin
	return s, nil
}

// ConnectTo returns servers that have Kafka only.
func ConnectTo(brokers []string) (*Servers, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	return &Servers{brokers: brokers, kafka: client, admin: kadm.NewClient(client)}, nil
}

// Close closes the connections to Kafka.
func (s *Servers) Close() { s.kafka.Close() }

// uniqueName returns a unique name for a database or topic that shows its origin.
func uniqueName() string { return "outrider_bench_" + strings.ToLower(rand.Text()) }

// CreateDatabase makes an empty database and returns its URL and a function that
// drops it.
func (s *Servers) CreateDatabase(ctx context.Context) (string, func() error, error) {
	name := uniqueName()
	if err := s.execOn(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	u := *s.postgres
	u.Path = "/" + name
	drop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupLimit)
		defer cancel()
		// A relay that was killed may have left a slot.
		err := onURL(ctx, u.String(), DropSlots)
		if err := errors.Join(err, s.execOn(ctx, "DROP DATABASE "+name+" WITH (FORCE)")); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	}
	return u.String(), drop, nil
}

// DropSlots drops the replication slots of the connection's database and ends their
// readers: PostgreSQL drops no database that has a slot.
func DropSlots(ctx context.Context, db *pgx.Conn) error {
	return Poll(ctx, CleanupLimit, "a replication slot of the database is still read", func() (bool, error) {
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
func (s *Servers) execOn(ctx context.Context, statement string) error {
	return s.On(ctx, func(ctx context.Context, db *pgx.Conn) error {
		_, err := db.Exec(ctx, statement)
		return err
	})
}

// On calls do with a connection to the database that the environment names.
func (s *Servers) On(ctx context.Context, do func(ctx context.Context, db *pgx.Conn) error) error {
	return onURL(ctx, s.postgres.String(), do)
}

func onURL(ctx context.Context, url string, do func(ctx context.Context, db *pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, db), db.Close(context.WithoutCancel(ctx)))
}

// createTopic makes an empty topic and returns its name and a function that
// deletes it.
func (s *Servers) createTopic(ctx context.Context) (string, func() error, error) {
	name := uniqueName()
	remove, err := s.CreateTopicNamed(ctx, name)
	return name, remove, err
}

// CreateTopicNamed makes an empty topic and returns a function that deletes it.
func (s *Servers) CreateTopicNamed(ctx context.Context, name string) (func() error, error) {
	if _, err := s.admin.CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		return nil, fmt.Errorf("create topic %s: %w", name, err)
	}
	remove := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupLimit)
		defer cancel()
		if _, err := s.admin.DeleteTopic(ctx, name); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
		return nil
	}
	// The broker answers before it serves the topic.
	err := Poll(ctx, CleanupLimit, "topic "+name+" was created and is not served", func() (bool, error) {
		_, _, err := s.EndOffsets(ctx, name)
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

// EndOffsets returns the end offsets of the topic's partitions. Their sum is the
// number of records, as none is deleted and no transactions are used.
func (s *Servers) EndOffsets(ctx context.Context, topic string) (ends map[int32]int64, records int, err error) {
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

// Poll calls done until it returns true. After the limit it returns an error with
// the reason.
func Poll(ctx context.Context, limit time.Duration, reason string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %v: %s", limit, reason))
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
