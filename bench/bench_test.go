package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// smallServers connects to the servers of the tests.
func smallServers(t *testing.T) *measure.Servers {
	t.Helper()
	return serversAt(t, testenv.Postgres(t))
}

// serversAt connects to a PostgreSQL and the Kafka of the tests.
func serversAt(t *testing.T, url string) *measure.Servers {
	t.Helper()
	s, err := measure.ServersAt(url, strings.Join(testenv.Kafka(t), ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// measureSmall measures with few rows: the figures mean nothing, but what is
// measured is verified. Of each scenario it takes the entries at the indexes, all
// if there are none.
func measureSmall(t *testing.T, entries []int, args ...string) outcome {
	t.Helper()
	return measureSmallWith(t, nil, entries, args...)
}

// measureSmallWith is measureSmall with builds that are compared.
func measureSmallWith(t *testing.T, builds []build, entries []int, args ...string) outcome {
	t.Helper()
	s := smallServers(t)
	// Debezium takes a minute, and graphile-worker needs Node.js: every run of `make bench` verifies what they do.
	peers := slices.DeleteFunc(peerKinds(), func(kind string) bool { return kind == peers.FastDebezium.Name() || kind == peers.Graphile.Name() })
	args = append([]string{"-peers", strings.Join(peers, ",")}, args...)
	args = append(args, "-rows", "2000", "-backlog", "3000", "-stock-rows", "300", "-warmup", "0", "-groups", "50",
		"-items", "2000", "-hooks", "1000", "-duration", "200ms", "-sustain", "1s", "-rate", "500")
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if entries != nil {
		few := *o.scenarios[0]
		few.entries = func(o *options) (out []entry) {
			all := scenarioNamed(few.name).selected(o)
			for _, i := range entries {
				out = append(out, all[i])
			}
			return out
		}
		o.scenarios[0] = &few
	}
	var progress bytes.Buffer
	b := &bench{servers: s, options: o, progress: &progress, builds: builds}
	r, err := b.runAll(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, &progress)
	}
	if !strings.HasPrefix(r.Machine.Postgres, "1") || r.Machine.Settings["fsync"] == "" || !strings.HasPrefix(r.Machine.Kafka, "v") {
		t.Errorf("servers: %+v", r.Machine)
	}
	return r.Scenarios[0]
}

// Of each scenario every peer, and each way of measuring, briefly those of the first four; publishing has a test
// of its own, and so has what statements cost.
func TestEveryPeerDeliversAndIsMeasured(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "cpu.pprof")
	for _, tt := range []struct {
		scenario string
		entries  []int
		want     []string
		figures  []string
		args     []string
	}{
		{scenario: "drain", want: []string{"floor 2000 ", "outrider 2000 ", "outrider-chains 2000 ", "stock 300 "}, args: []string{"-profile", profile}},
		{scenario: "flowcatalyst", entries: []int{6, 7, 8}, want: []string{"floor 2000 answers after 10 ms", "outrider 2000 answers after 10 ms",
			"outrider-defaults 40 answers after 0 ms"}},
		{scenario: "latency", entries: []int{0, 1, 6, 7, 8, 9}, want: []string{"outrider-flowcatalyst 20 100 msgs/s", "outrider-webhook 20 100 msgs/s",
			"floor 200 1000 msgs/s", "outrider-kafka 200 1000 msgs/s", "outrider-notified 200 1000 msgs/s", "outrider-followed 200 1000 msgs/s"}},
		{scenario: "sustained", want: []string{"outrider 500 500 msgs/s wanted"}, figures: []string{"largest size (MiB)", "worst p99 of a second (ms)"}},
		{scenario: "flat", entries: []int{1, 2}, want: []string{"outrider 3000 ", "outrider 3000 3000 delivered rows before them"}},
		{scenario: "webhooks", want: []string{"floor 1000 ", "outrider 1000 "}},
		{scenario: "river", want: []string{"river-insert 2000 inserted", "river 2000 worked, the work is nothing", "outrider 2000 delivered by HTTP in order"}},
		{scenario: "spread", entries: []int{1}, want: []string{"outrider 200 3 instances"}, figures: []string{"instances with lanes"}},
		{scenario: "peers", entries: []int{1, 5}, want: []string{"outrider 400 1000 msgs/s, 1 group poisoned",
			"outrider 200 backlog, 1 of 2 destinations hangs"}},
	}[:testenv.Brief(4, 9)] {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			s := measureSmall(t, tt.entries, append(tt.args, "-runs", "1", "-scenario", tt.scenario)...)
			var got []string
			for _, res := range s.Results {
				got = append(got, fmt.Sprintf("%s %d %s", res.Peer, res.Rows, res.With))
				complete(t, &s, &res, tt.figures)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("measured\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if info, err := os.Stat(profile); tt.args != nil && (err != nil || info.Size() == 0) {
				t.Errorf("the profile: %v, %v", info, err)
			}
			for _, p := range s.plots() {
				if _, err := p.draw(); err != nil {
					t.Errorf("%s: %v", p.file, err)
				}
			}
		})
	}
}

// complete wants everything that its scenario measures.
func complete(t *testing.T, s *outcome, res *result, figures []string) {
	t.Helper()
	if len(res.Rates) != 1 || res.Rate <= 0 || res.CPU <= 0 || res.Peak <= 1<<20 {
		t.Errorf("%s was not measured: %+v", res.Peer, res)
	}
	timed := []string{delayScenario.name, sustainedScenario.name, neighbourScenario.name}
	if slices.Contains(timed, s.Name) != (len(res.P50s) == 1 && res.P50 > 0 && res.P99 >= res.P50) {
		t.Errorf("latency of %s: %+v", res.Peer, res)
	}
	for _, f := range figures {
		if res.Figures[f] <= 0 {
			t.Errorf("%s: %s is %v", res.Peer, f, res.Figures[f])
		}
	}
}

func TestWhatStatementsCostIsMeasured(t *testing.T) {
	t.Parallel()
	postgres, err := startPostgres(t.Context(), packagedPostgres, t.Logf)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	s := serversAt(t, postgres.URL())
	o, err := parseOptions([]string{"-runs", "1", "-duration", "1s", "-hold", "2s", "-groups", "50"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := idleWay.Provide(t.Context(), s, nil); err != nil {
		t.Skip(err)
	}
	// To build the program takes longer than all the rest.
	b := &bench{servers: s, options: o, progress: io.Discard, versions: map[string]time.Duration{"": time.Millisecond}}
	for _, tt := range []struct {
		name     string
		scenario *scenario
		entry    int
		figures  []string
	}{
		{"idle", idleScenario, 0, []string{"polls (1/s)", "statements (1/s)", "first delivery (ms)", "version (ms)"}},
		{"log", snapshotScenario, 0, []string{"settle WAL (bytes/msg)"}},
		{"queue", snapshotScenario, 1, []string{"settle WAL (bytes/msg)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st, err := newStage(t.Context(), s, tt.scenario, tt.scenario.entries(o)[tt.entry], build{}, o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.scenario.measure(b, t.Context(), st)
			if err := errors.Join(err, st.close()); err != nil {
				t.Fatal(err)
			}
			for _, name := range tt.figures {
				if got.figures[name] <= 0 {
					t.Errorf("%s is %v", name, got.figures[name])
				}
			}
		})
	}
}

// The entries of Outrider: a crash, which is seen and mended, and a message that is refused, which holds up nothing.
func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ entry, restarts int }{"killed": {0, 1}, "refused": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parseOptions([]string{"-duration", "500ms", "-peers", peers.OutriderName}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			e := faultScenario.selected(o)[want.entry]
			got, err := measureOnce(t, faultScenario, e, "-duration", "500ms")
			if err != nil {
				t.Fatal(err)
			}
			if f := got.figures; f[undelivered] != 0 || f[inverted] != 0 || f[longestWait] <= 0 || f[restarted] != float64(want.restarts) {
				t.Errorf("%s: %v", e.with, f)
			}
		})
	}
}

func TestRunsBeginAnew(t *testing.T) {
	t.Parallel()
	for scenario, entry := range map[string]int{"drain": 1, "webhooks": 0, "spread": 0} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			s := measureSmall(t, []int{entry}, "-runs", "2", "-scenario", scenario)
			if got := s.Results[0]; len(got.Rates) != 2 {
				t.Errorf("%s has %d runs", got.Peer, len(got.Rates))
			}
		})
	}
}

// garbling is a floor whose table changes a row after the harness has looked at
// it, so that the record that arrives is not the one expected.
type garbling struct{ peers.Peer }

func (garbling) Rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `TRUNCATE bench_cursor; INSERT INTO bench_cursor VALUES (0);
		UPDATE bench_floor SET payload = '{"changed": true}' WHERE position = 7`)
	return err
}

func TestARunThatIsNotCleanDoesNotCount(t *testing.T) {
	t.Parallel()
	_, err := measureOnce(t, drainScenario, entry{peer: garbling{peers.Floor}, sink: measure.Topic{}, rows: 100, groups: 10})
	if err == nil || !strings.Contains(err.Error(), "of 100 records: lost 1, duplicates 0, out of order 0, foreign 1") {
		t.Errorf("got %v", err)
	}
}

// unsettling is a floor that leaves one row unsettled.
type unsettling struct{ peers.Peer }

func (unsettling) Disorderly() {}

func (unsettling) Verify(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "UPDATE outbox_events SET status = 'PROCESSING' WHERE id = lpad('7', 13, '0')"); err != nil {
		return err
	}
	return peers.ItemFloor.Verify(ctx, db)
}

func TestARunThatIsNotSettledDoesNotCount(t *testing.T) {
	t.Parallel()
	_, err := measureOnce(t, itemScenario, itemEntry(unsettling{peers.ItemFloor}, 500, 0))
	if err == nil || !strings.Contains(err.Error(), "1 rows of outbox_events are not marked as delivered") {
		t.Errorf("got %v", err)
	}
}

// measureOnce measures one entry.
func measureOnce(t *testing.T, sc *scenario, e entry, args ...string) (sample, error) {
	t.Helper()
	o, err := parseOptions(append(args, "-runs", "1"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := smallServers(t)
	st, err := newStage(t.Context(), s, sc, e, build{}, o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{servers: s, options: o, progress: io.Discard}
	got, err := sc.measure(b, t.Context(), st)
	if err := st.close(); err != nil {
		t.Error(err)
	}
	return got, err
}

func TestARelayThatEndsIsTold(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	brokers := testenv.Kafka(t)
	p, err := start(t.Context(), "", measure.Job{Scenario: "drain", Peer: "floor", Postgres: url, Brokers: brokers, Topic: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-p.done // its cursor table does not exist
	if _, err := p.stop(); err == nil || !strings.Contains(err.Error(), "the process of floor ended") || !strings.Contains(err.Error(), "bench_cursor") {
		t.Errorf("got %v", err)
	}
}
