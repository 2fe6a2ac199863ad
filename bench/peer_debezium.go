package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// debezium is Debezium's connector for PostgreSQL, which reads the write-ahead
// log, with its outbox event router, in a standalone worker of Kafka Connect.
//
// Its drain is measured twice. Cold, the clock starts with its process, as those of
// all other peers do. Warm, what counts is the steady rate. In the log, behind the
// slot and before the backlog, stand rows for a topic of their own. When the last of
// them is in Kafka, the JVM has started and compiled what it runs, the connector
// streams at full speed, and the first row of the backlog is next. None of that
// counts against Debezium: not the start of the JVM, not the slow first seconds, not
// the processor time of either.
type debezium struct {
	linger string // milliseconds that the producer waits for more records
	cold   bool   // its start counts
}

// No single setting suits Debezium best: waiting a little makes batches
// larger, and every message later.
var (
	fastDebezium   = debezium{linger: "5"}
	coldDebezium   = debezium{linger: "5", cold: true}
	promptDebezium = debezium{linger: "0"}
)

const (
	debeziumTable       = "bench_debezium"
	debeziumPublication = "bench_debezium"

	// debeziumWarmRows are the rows before those that count. Over the first 80,000
	// or so the rate rises.
	debeziumWarmRows = 100_000

	// The prefixes of topics for the event router: the topic itself, and that with
	// warmSuffix.
	debeziumType = "order"
	warmSuffix   = ".warm"
)

// warmLimit is how long a relay may take to become warm.
const warmLimit = 5 * time.Minute

func (d debezium) name() string {
	if d.cold {
		return "debezium-cold"
	}
	return "debezium"
}

func (d debezium) about() string {
	clock := fmt.Sprintf("its clock starts when it is warm, after %d rows that do not count", debeziumWarmRows)
	if d.cold {
		clock = "its clock starts with its process"
	}
	return fmt.Sprintf("Debezium %s for PostgreSQL (pgoutput; poll.interval.ms %s, max.batch.size %s, max.queue.size %s) with its outbox event router, "+
		"in Kafka Connect standalone (acks all, idempotent; linger.ms %s, batch.size %s, no compression; G1, 2 GiB of heap); %s",
		provision.DebeziumVersion, debeziumPoll, debeziumBatch, debeziumQueue, d.linger, debeziumProducerBatch, clock)
}

// provide looks for the jars, downloads them if need be, and asks whether the
// server's log can be decoded.
func (debezium) provide(ctx context.Context, s *servers, say func(format string, args ...any)) error {
	var level string
	err := s.on(ctx, func(ctx context.Context, db *pgx.Conn) error { return db.QueryRow(ctx, "SHOW wal_level").Scan(&level) })
	if err != nil {
		return err
	}
	if level != "logical" {
		return fmt.Errorf("PostgreSQL runs with wal_level = %s and Debezium needs logical: `make bench` starts one that has it", level)
	}
	_, err = provision.Host{Install: true, Say: say}.Debezium(ctx)
	return err
}

func (debezium) create(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `CREATE TABLE `+debeziumTable+` (id uuid PRIMARY KEY, aggregatetype text NOT NULL,
			aggregateid text NOT NULL, type text NOT NULL, payload json NOT NULL);
		CREATE PUBLICATION `+debeziumPublication+` FOR TABLE `+debeziumTable+` WITH (publish = 'insert')`)
	if err != nil {
		return err
	}
	if err := keepEvents(ctx, db); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "DROP TABLE "+eventTable)
	return err
}

func (debezium) backlog() string {
	return "SELECT message_group, payload::text FROM " + itemBacklog + " ORDER BY position"
}

// insert is a statement that publishes one message: $1 id, $2 group, $3 payload.
// The id becomes some uuid: the router's column is one, and nothing depends on it.
func (debezium) insert() string {
	return "INSERT INTO " + debeziumTable + " (id, aggregatetype, aggregateid, type, payload) VALUES (md5($1)::uuid, '" +
		debeziumType + "', $2, 'order.created', $3)"
}

// rewind writes the log again: whatever stands before the slot is never read.
func (d debezium) rewind(ctx context.Context, db *pgx.Conn) error {
	if err := dropSlots(ctx, db); err != nil {
		return err
	}
	if err := d.beginLog(ctx, db); err != nil {
		return err
	}
	return d.fill(ctx, db)
}

// fill writes the backlog.
func (debezium) fill(ctx context.Context, db *pgx.Conn) error {
	return fillFrom(ctx, db, itemBacklog, "INSERT INTO "+debeziumTable+" (id, aggregatetype, aggregateid, type, payload) "+
		"SELECT id::uuid, '"+debeziumType+"', message_group, 'order.created', payload")
}

// beginLog makes the slot and writes the rows that warm the worker, if any.
func (d debezium) beginLog(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE "+debeziumTable)
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, "SELECT pg_create_logical_replication_slot(current_database(), 'pgoutput')"); err != nil {
		return fmt.Errorf("create a replication slot: %w", err)
	}
	if d.cold {
		return nil
	}
	_, err = db.Exec(ctx, fmt.Sprintf(`DO $fill$
		BEGIN
			FOR low IN 1 .. %[1]d BY %[2]d LOOP
				INSERT INTO %[3]s (id, aggregatetype, aggregateid, type, payload)
				SELECT gen_random_uuid(), '%[4]s', 'order-' || n %% 1000, 'order.created',
					json_build_object('sequence', n, 'note', repeat(md5(n::text), 8))
				FROM generate_series(low, low + %[2]d - 1) n;
				COMMIT;
			END LOOP;
		END $fill$`, debeziumWarmRows, commitRows, debeziumTable, debeziumType+warmSuffix))
	return err
}

func (d debezium) relay(ctx context.Context, j job) error {
	_, err := d.warmRelay(ctx, j, func(int) error { return nil })
	return err
}

func (d debezium) warms() bool { return !d.cold }

// warmRelay leaves no slot behind: all has been delivered, and with a slot the
// database cannot be dropped.
func (d debezium) warmRelay(ctx context.Context, j job, warm func(pid int) error) (peak int64, err error) {
	found, err := provision.Host{}.Debezium(ctx)
	if err != nil {
		return 0, err
	}
	db, err := pgx.Connect(ctx, j.Postgres)
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, dropSlots(ctx, db), db.Close(ctx))
	}()
	// When messages are written one by one there was no backlog to rewind.
	var begun bool
	if err := db.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_replication_slots WHERE database = current_database()").Scan(&begun); err != nil {
		return 0, err
	}
	if !begun {
		if err := d.beginLog(ctx, db); err != nil {
			return 0, err
		}
	}
	connector, err := debeziumConnector(j)
	if err != nil {
		return 0, err
	}
	opts := server.ConnectOptions{
		Java: found.Java, Jars: found.Connect, Plugins: found.Plugins, Brokers: j.Brokers, Worker: d.worker(), Connector: connector,
	}
	if d.cold {
		return d.run(ctx, opts, func(*server.Connect) error { return nil })
	}
	return d.runWarm(ctx, j, warm, opts)
}

// runWarm runs the worker and calls warm when the rows that warm it are in Kafka.
func (d debezium) runWarm(ctx context.Context, j job, warm func(pid int) error, opts server.ConnectOptions) (peak int64, err error) {
	s, err := connectTo(j.Brokers)
	if err != nil {
		return 0, err
	}
	defer s.close()
	lead := j.Topic + warmSuffix
	remove, err := s.createTopicNamed(ctx, lead)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return d.run(ctx, opts, func(worker *server.Connect) error {
		err := poll(ctx, warmLimit, "not all rows that warm Debezium are in Kafka", func() (bool, error) {
			_, n, err := s.endOffsets(ctx, lead)
			return n >= debeziumWarmRows, err
		})
		if err != nil {
			return fmt.Errorf("%w; the worker's log ends:\n%s", err, worker.Log())
		}
		return warm(worker.PID())
	})
}

// run runs the worker until ctx ends. It calls started when the connector's task
// runs.
func (debezium) run(ctx context.Context, opts server.ConnectOptions, started func(*server.Connect) error) (peak int64, err error) {
	worker, err := server.StartConnect(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	if err := started(worker); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return peakMemory(worker.PID()), nil
}
