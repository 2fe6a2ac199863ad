package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// debezium is Debezium's connector for PostgreSQL, which reads the write-ahead
// log, with its outbox event router, in a standalone worker of Kafka Connect.
//
// Its drain is measured twice. Cold, the clock starts with its process, like that of
// all other peers. Warm, only the steady rate counts: between the slot and the
// backlog, the log has rows for a topic of their own. When the last of them is in
// Kafka, the JVM has compiled its code, the connector streams at full speed, and the
// first row of the backlog is next. The start of the JVM, the slow first seconds and
// their processor time do not count.
type debezium struct {
	linger string // milliseconds that the producer waits for more records
	cold   bool   // its start counts
	lone   bool   // likewise, and there is no other
}

// No single setting suits Debezium best: waiting a little makes batches
// larger, and every message later.
var (
	FastDebezium   = debezium{linger: "5"}
	ColdDebezium   = debezium{linger: "5", cold: true}
	PromptDebezium = debezium{linger: "0"}
	LoneDebezium   = debezium{linger: "0", cold: true, lone: true}
)

// DebeziumRows writes the messages of a transaction of a [measure.Flow].
const DebeziumRows = "INSERT INTO " + debeziumTable + " (id, aggregatetype, aggregateid, type, payload) SELECT md5(id)::uuid, '" +
	debeziumType + "', name, 'order.created', payload::json FROM unnest($1::text[], $2::text[], $3::text[]) AS m(id, name, payload)"

const (
	debeziumTable       = "bench_debezium"
	debeziumPublication = "bench_debezium"

	// DebeziumWarmRows is the number of rows before those that count. The rate rises
	// over about the first 80,000.
	DebeziumWarmRows = 100_000

	// The prefixes of topics for the event router: the topic itself, and that with
	// warmSuffix.
	debeziumType = "order"
	warmSuffix   = ".warm"
)

// WarmLimit limits how long a relay takes to become warm.
const WarmLimit = 5 * time.Minute

func (d debezium) Name() string {
	if d.cold && !d.lone {
		return "debezium-cold"
	}
	return "debezium"
}

func (d debezium) About() string {
	clock := fmt.Sprintf("its clock starts when it is warm, after %d rows that do not count", DebeziumWarmRows)
	switch {
	case d.lone:
		clock = "offset.flush.interval.ms 1000; with its process the file of its offsets is lost, and it goes on from its slot"
	case d.cold:
		clock = "its clock starts with its process"
	}
	return fmt.Sprintf("Debezium %s for PostgreSQL (pgoutput; poll.interval.ms %s, max.batch.size %s, max.queue.size %s) with its outbox event router, "+
		"in Kafka Connect standalone (acks all, idempotent; linger.ms %s, batch.size %s, no compression; G1, 2 GiB of heap); %s",
		provision.DebeziumVersion, debeziumPoll, debeziumBatch, debeziumQueue, d.linger, debeziumProducerBatch, clock)
}

// Provide checks wal_level, finds the jars, and downloads them if need be.
func (debezium) Provide(ctx context.Context, s *measure.Servers, say func(format string, args ...any)) error {
	var level string
	err := s.On(ctx, func(ctx context.Context, db *pgx.Conn) error { return db.QueryRow(ctx, "SHOW wal_level").Scan(&level) })
	if err != nil {
		return err
	}
	if level != "logical" {
		return fmt.Errorf("PostgreSQL runs with wal_level = %s and Debezium needs logical: `make bench` starts one that has it", level)
	}
	_, err = provision.Host{Install: true, Say: say}.Debezium(ctx)
	return err
}

func (debezium) Create(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `CREATE TABLE `+debeziumTable+` (id uuid PRIMARY KEY, aggregatetype text NOT NULL,
			aggregateid text NOT NULL, type text NOT NULL, payload json NOT NULL);
		CREATE PUBLICATION `+debeziumPublication+` FOR TABLE `+debeziumTable+` WITH (publish = 'insert')`)
	if err != nil {
		return err
	}
	if err := measure.KeepEvents(ctx, db); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "DROP TABLE "+measure.EventTable)
	return err
}

func (debezium) Backlog() string {
	return "SELECT message_group, payload::text FROM " + measure.ItemBacklog + " ORDER BY position"
}

// Insert is a statement that publishes one message: $1 id, $2 group, $3 payload.
// The id becomes some uuid: the router's column is one, and nothing depends on it.
func (debezium) Insert() string {
	return "INSERT INTO " + debeziumTable + " (id, aggregatetype, aggregateid, type, payload) VALUES (md5($1)::uuid, '" +
		debeziumType + "', $2, 'order.created', $3)"
}

// Rewind makes a new slot and writes the backlog to the log again.
func (d debezium) Rewind(ctx context.Context, db *pgx.Conn) error {
	if err := measure.DropSlots(ctx, db); err != nil {
		return err
	}
	if err := d.beginLog(ctx, db); err != nil {
		return err
	}
	return d.fill(ctx, db)
}

// fill writes the backlog.
func (debezium) fill(ctx context.Context, db *pgx.Conn) error {
	return measure.FillFrom(ctx, db, measure.ItemBacklog, "INSERT INTO "+debeziumTable+" (id, aggregatetype, aggregateid, type, payload) "+
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
		END $fill$`, DebeziumWarmRows, measure.CommitRows, debeziumTable, debeziumType+warmSuffix))
	return err
}

func (d debezium) Relay(ctx context.Context, j measure.Job) error {
	_, err := d.WarmRelay(ctx, j, func(int) error { return nil })
	return err
}

func (d debezium) Warms() bool { return !d.cold }

// WarmRelay leaves no slot behind: all has been delivered, and with a slot the
// database cannot be dropped.
func (d debezium) WarmRelay(ctx context.Context, j measure.Job, warm func(pid int) error) (peak int64, err error) {
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
		err = errors.Join(err, measure.DropSlots(ctx, db), db.Close(ctx))
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
func (d debezium) runWarm(ctx context.Context, j measure.Job, warm func(pid int) error, opts server.ConnectOptions) (peak int64, err error) {
	s, err := measure.ConnectTo(j.Brokers)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	lead := j.Topic + warmSuffix
	remove, err := s.CreateTopicNamed(ctx, lead)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return d.run(ctx, opts, func(worker *server.Connect) error {
		err := measure.Poll(ctx, WarmLimit, "not all rows that warm Debezium are in Kafka", func() (bool, error) {
			_, n, err := s.EndOffsets(ctx, lead)
			return n >= DebeziumWarmRows, err
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
	return measure.PeakMemory(worker.PID()), nil
}
