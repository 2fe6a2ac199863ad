package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// measureSmall measures with few rows: the figures mean nothing, but what is
// measured is verified.
func measureSmall(t *testing.T, args ...string) *report {
	t.Helper()
	t.Setenv(envPostgres, testenv.Postgres(t))
	testenv.Kafka(t)
	var out, progress bytes.Buffer
	// Debezium takes a minute: every run of `make bench` verifies what it does.
	peers := slices.DeleteFunc(peerKinds(), func(kind string) bool { return kind == fastDebezium.name() })
	args = append([]string{"-peers", strings.Join(peers, ",")}, args...)
	args = append(args, "-rows", "2000", "-backlog", "3000", "-stock-rows", "300", "-warmup", "0", "-groups", "50",
		"-items", "2000", "-hooks", "1000", "-duration", "200ms", "-json")
	if status := run(t.Context(), args, &out, &progress); status != 0 {
		t.Fatalf("status %d: %s", status, &progress)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	return &r
}

func TestEveryPeerDeliversAndIsMeasured(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu.pprof")
	r := measureSmall(t, "-runs", "1", "-profile", profile)
	var got []string
	for _, s := range r.Scenarios {
		for _, res := range s.Results {
			got = append(got, fmt.Sprintf("%s: %s %d %s", s.Name, res.Peer, res.Rows, res.With))
			if len(res.Rates) != 1 || res.Rate <= 0 || res.CPU <= 0 || res.Peak <= 1<<20 {
				t.Errorf("%s: %s was not measured: %+v", s.Name, res.Peer, res)
			}
			if delay := s.Name == delayScenario.name; delay != (len(res.P50s) == 1 && res.P50 > 0 && res.P99 >= res.P50) {
				t.Errorf("%s: latency of %s: %+v", s.Name, res.Peer, res)
			}
		}
	}
	if want := []string{
		"drain: floor 2000 ", "drain: outrider 2000 ", "drain: stock 300 ", "backlog: outrider 2000 ", "backlog: outrider 3000 ",
		"flowcatalyst: floor 200 answers after 0 ms", "flowcatalyst: outrider 200 answers after 0 ms",
		"flowcatalyst: floor 200 answers after 10 ms", "flowcatalyst: outrider 200 answers after 10 ms",
		"flowcatalyst: floor 2000 answers after 0 ms", "flowcatalyst: outrider 2000 answers after 0 ms",
		"flowcatalyst: floor 2000 answers after 10 ms", "flowcatalyst: outrider 2000 answers after 10 ms",
		"flowcatalyst: outrider-defaults 40 answers after 0 ms", "webhooks: floor 1000 ", "webhooks: outrider 1000 ",
		"latency: outrider-flowcatalyst 20 100 msgs/s", "latency: outrider-webhook 20 100 msgs/s",
		"latency: outrider-kafka 2 10 msgs/s", "latency: outrider-notified 2 10 msgs/s",
		"latency: outrider-kafka 20 100 msgs/s", "latency: outrider-kafka 200 1000 msgs/s", "latency: outrider-notified 200 1000 msgs/s",
		"river: river-insert 2000 inserted", "river: river 2000 worked, the work is nothing", "river: outrider 2000 delivered by HTTP in order",
	}; !slices.Equal(got, want) {
		t.Errorf("measured\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("the profile: %v, %v", info, err)
	}
	if !strings.HasPrefix(r.Machine.Postgres, "PostgreSQL 1") || !strings.HasPrefix(r.Machine.Kafka, "Kafka v") {
		t.Errorf("servers: %+v", r.Machine)
	}
}

func TestRunsBeginAnew(t *testing.T) {
	r := measureSmall(t, "-runs", "2", "-scenario", "drain,webhooks", "-peers", "floor,outrider")
	for _, s := range r.Scenarios {
		for _, res := range s.Results {
			if len(res.Rates) != 2 {
				t.Errorf("%s: %s has %d runs", s.Name, res.Peer, len(res.Rates))
			}
		}
	}
}

// garbling is a floor whose table changes a row after the harness has looked at
// it, so that the record that arrives is not the one expected.
type garbling struct{ floor }

func (garbling) rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `TRUNCATE bench_cursor; INSERT INTO bench_cursor VALUES (0);
		UPDATE bench_floor SET payload = '{"changed": true}' WHERE position = 7`)
	return err
}

func TestARunThatIsNotCleanDoesNotCount(t *testing.T) {
	url := testenv.Postgres(t)
	testenv.Kafka(t)
	t.Setenv(envPostgres, url)
	err := measureOnce(t, drainScenario, entry{peer: garbling{}, sink: topic{}, rows: 100, groups: 10})
	if err == nil || !strings.Contains(err.Error(), "of 100 records: lost 1, duplicates 0, out of order 0, foreign 1") {
		t.Errorf("got %v", err)
	}
}

// unsettling is a floor whose table the harness finds with one row that nobody
// settled.
type unsettling struct{ itemFloor }

func (u unsettling) verify(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "UPDATE outbox_events SET status = 'PROCESSING' WHERE id = lpad('7', 13, '0')"); err != nil {
		return err
	}
	return u.itemFloor.verify(ctx, db)
}

func TestARunThatIsNotSettledDoesNotCount(t *testing.T) {
	url := testenv.Postgres(t)
	testenv.Kafka(t)
	t.Setenv(envPostgres, url)
	err := measureOnce(t, itemScenario, itemEntry(unsettling{}, 500, 0))
	if err == nil || !strings.Contains(err.Error(), "1 rows of outbox_events are not marked as delivered") {
		t.Errorf("got %v", err)
	}
}

// measureOnce measures one entry.
func measureOnce(t *testing.T, sc *scenario, e entry) error {
	t.Helper()
	o, err := parseOptions([]string{"-runs", "1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	st, err := newStage(t.Context(), s, sc, e, o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{servers: s, options: o, progress: io.Discard}
	_, err = sc.measure(b, t.Context(), st)
	if err := st.close(); err != nil {
		t.Error(err)
	}
	return err
}

func TestARelayThatEndsIsTold(t *testing.T) {
	url := testenv.Postgres(t)
	brokers := testenv.Kafka(t)
	p, err := start(t.Context(), job{Scenario: "drain", Peer: "floor", Postgres: url, Brokers: brokers, Topic: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-p.done // its cursor table does not exist
	if _, err := p.stop(); err == nil || !strings.Contains(err.Error(), "the process of floor ended") || !strings.Contains(err.Error(), "bench_cursor") {
		t.Errorf("got %v", err)
	}
}
