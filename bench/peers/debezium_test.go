package peers

import (
	"errors"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

func TestDebeziumIsToldWhereFromAndWhereTo(t *testing.T) {
	t.Parallel()
	got, err := debeziumConnector(measure.Job{Postgres: "postgres://me:pass%20word@db.example:5433/outbox_1?sslmode=disable", Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"database.hostname": "db.example", "database.port": "5433", "database.user": "me", "database.password": "pass word",
		"database.dbname": "outbox_1", "database.sslmode": "disable", "slot.name": "outbox_1", "table.include.list": "public.bench_debezium",
		"poll.interval.ms": "5", "max.batch.size": "8192", "max.queue.size": "32768",
		"transforms.outbox.route.topic.regex": "order(.*)", "transforms.outbox.route.topic.replacement": "orders$1",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if linger := PromptDebezium.worker()["producer.linger.ms"]; linger != "0" {
		t.Errorf("the prompt one waits %s ms", linger)
	}
	for _, u := range []string{"postgres://me:secret@host:port/db", "postgres://me:secret@%zz/db"} {
		if _, err := debeziumConnector(measure.Job{Postgres: u}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", u, err)
		}
	}
}

// A killed relay leaves its slot, and a process that reads it.
func TestADatabaseWithASlotIsDropped(t *testing.T) {
	s := logicalServers(t)
	url, drop, err := s.CreateDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := measure.WriteEvents(t.Context(), db, 2500, 10, 300); err != nil {
		t.Fatal(err)
	}
	d := FastDebezium
	if err := d.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "SELECT pg_create_logical_replication_slot(current_database(), 'pgoutput')"); err != nil {
		t.Fatal(err)
	}
	if err := d.fill(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	// The same connection writes while latency is measured. What is not flushed cannot be
	// decoded, so commits that do not wait for it would be Debezium's delay.
	var commit string
	if err := db.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&commit); err != nil || commit != "on" {
		t.Errorf("synchronous_commit is %q, %v", commit, err)
	}
	// The log after the slot, decoded by the server itself.
	var inserts int
	if err := db.QueryRow(t.Context(), `SELECT count(*)
		FROM pg_logical_slot_peek_binary_changes(current_database(), NULL, $1, 'proto_version', '1', 'publication_names', $2)
		WHERE get_byte(data, 0) = ascii('I')`, nil, debeziumPublication).Scan(&inserts); err != nil {
		t.Fatal(err)
	}
	if inserts != 2500 {
		t.Errorf("the log has %d rows", inserts)
	}
	if err := errors.Join(db.Close(t.Context()), drop()); err != nil {
		t.Fatal(err)
	}
}

// logicalServers starts a PostgreSQL whose log can be decoded.
func logicalServers(t *testing.T) *measure.Servers {
	t.Helper()
	brokers := strings.Join(testenv.Kafka(t), ",") // skips where there are no servers
	bin, err := provision.Host{}.Postgres(t.Context())
	if err != nil {
		t.Skipf("no PostgreSQL to start: %v", err)
	}
	pg, err := server.StartPostgres(t.Context(), server.PostgresOptions{Bin: bin, Logical: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := measure.ServersAt(pg.URL(), brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestDebeziumNeedsALogicalLog(t *testing.T) {
	url := testenv.Postgres(t)
	s, err := measure.ServersAt(url, strings.Join(testenv.Kafka(t), ","))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	var level string
	if err := db.QueryRow(t.Context(), "SHOW wal_level").Scan(&level); err != nil || level == "logical" {
		t.Skipf("the shared server has wal_level %q (%v)", level, err)
	}
	silent := func(string, ...any) {}
	if err := FastDebezium.Provide(t.Context(), s, silent); err == nil || !strings.Contains(err.Error(), "wal_level = "+level) ||
		!strings.Contains(err.Error(), "make bench") {
		t.Errorf("got %v", err)
	}
}
