package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

func TestDebeziumIsToldWhereFromAndWhereTo(t *testing.T) {
	t.Parallel()
	got, err := debeziumConnector(job{Postgres: "postgres://me:pass%20word@db.example:5433/outbox_1?sslmode=disable", Topic: "orders"})
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
	if linger := promptDebezium.worker()["producer.linger.ms"]; linger != "0" {
		t.Errorf("the prompt one waits %s ms", linger)
	}
	for _, u := range []string{"postgres://me:secret@host:port/db", "postgres://me:secret@%zz/db"} {
		if _, err := debeziumConnector(job{Postgres: u}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", u, err)
		}
	}
}

// A relay that was killed leaves its slot, and somebody who reads it.
func TestADatabaseWithASlotIsDropped(t *testing.T) {
	s := logicalServers(t)
	url, drop, err := s.createDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeEvents(t.Context(), db, 2500, 10, 300); err != nil {
		t.Fatal(err)
	}
	d := fastDebezium
	if err := d.create(t.Context(), db, nowhere(url)); err != nil {
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
	// What stands in the log behind the slot, as the server itself decodes it.
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
func logicalServers(t *testing.T) *servers {
	t.Helper()
	testenv.Kafka(t) // skips where there are no servers
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
	t.Setenv(envPostgres, pg.URL())
	s, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestDebeziumNeedsALogicalLog(t *testing.T) {
	url := testenv.Postgres(t)
	testenv.Kafka(t)
	t.Setenv(envPostgres, url)
	s, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
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
	if err := fastDebezium.provide(t.Context(), s, silent); err == nil || !strings.Contains(err.Error(), "wal_level = "+level) ||
		!strings.Contains(err.Error(), "make bench") {
		t.Errorf("got %v", err)
	}
}

// absent is a floor that lacks something.
type absent struct {
	floor
	asked *int
}

func (absent) name() string { return "absent" }

func (a absent) provide(context.Context, *servers, func(string, ...any)) error {
	*a.asked++
	return errors.New("no such jar")
}

func TestTheRunGoesOnWithoutAPeerThatIsNotAvailable(t *testing.T) {
	t.Parallel()
	var asked int
	a := absent{asked: &asked}
	b := &bench{options: &options{}, progress: io.Discard}
	for range 2 { // of two scenarios
		able, missing := b.available(t.Context(), []entry{{peer: a, rows: 1}, {peer: floor{}}, {peer: a, rows: 2}})
		if len(able) != 1 || able[0].peer != (floor{}) {
			t.Errorf("able are %v", able)
		}
		if !slices.Equal(missing, []string{"absent is not available here: no such jar"}) {
			t.Errorf("missing: %q", missing)
		}
	}
	if asked != 1 {
		t.Errorf("it was provided %d times", asked)
	}
}

// warmingFloor is a floor that says that it is warm, and works with a process that
// has used time.
type warmingFloor struct{ floor }

func (warmingFloor) warms() bool { return true }

func (warmingFloor) warmRelay(_ context.Context, _ job, warm func(pid int) error) (int64, error) {
	return 7 << 20, warm(os.Getppid())
}

func TestWhatWarmsIsNotCounted(t *testing.T) {
	t.Parallel()
	said := notices{warm: make(chan struct{})}
	peak, err := relayPeer(t.Context(), warmingFloor{}, job{}, json.NewEncoder(&said))
	if err != nil || peak != 7<<20 {
		t.Errorf("peak %d, %v", peak, err)
	}
	select {
	case <-said.warm:
	default:
		t.Fatal("nobody was told that it is warm")
	}
	if len(said.said) != 1 || !said.said[0].Warm || said.said[0].CPU != said.said[0].CPU.Truncate(cpuTick) {
		t.Errorf("said %+v", said.said)
	}
}

func TestNoticesAreReadInPieces(t *testing.T) {
	t.Parallel()
	n := notices{warm: make(chan struct{})}
	for _, piece := range []string{`{"wa`, "rm\":true,\"cpu\":5000000}\nnoise\n", `{"peak_bytes"`, ":42}\n"} {
		if _, err := n.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []notice{{Warm: true, CPU: 5 * time.Millisecond}, {PeakBytes: 42}}; !slices.Equal(n.said, want) {
		t.Errorf("got %+v, want %+v", n.said, want)
	}
	<-n.warm
}

func TestRemarksCompareWithDebezium(t *testing.T) {
	t.Parallel()
	drain := []result{
		{Peer: outriderName, Rows: 9, Rate: 120, CPU: 5}, {Peer: outriderName, Rows: 12, With: warmed, Rate: 140, CPU: 5},
		{Peer: "debezium-cold", Rows: 9, Rate: 10, CPU: 100}, {Peer: "debezium", Rows: 9, With: warmed, Rate: 20, CPU: 50},
	}
	delay := []result{{Peer: "outrider-kafka", With: "1000 msgs/s", P50: 1, P99: 3}, {Peer: "debezium", With: "1000 msgs/s", P50: 5, P99: 10}}
	river := []result{{Peer: "river", Rate: 100, CPU: 40}, {Peer: outriderName, Rate: 250, CPU: 20}}
	all := strings.Join(slices.Concat(compare(drain), compareDelay(delay), riverScenario.remarks(river)), "\n")
	for _, want := range []string{
		"6.0 times as many messages per second as debezium, debezium warm", "10.0 times less processor time",
		"7.0 times as many messages per second as debezium, both warm", "12.0 times as many messages per second as debezium, both from the start",
		"has 20% of debezium's p50, and 30% of its p99", "2.5 times as many items per second as river",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}
