package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestG3_SIGTERMUnderLoadRepeatsNothing(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := consume(t, brokers, topic)
	stopLoop(t, testenv.Brief(8, 20), to, toKafka(brokers, topic))
}

func TestG3_SIGTERMUnderLoadRepeatsNothingHTTP(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	r := receive(t, slowly(3*time.Millisecond))
	stopLoop(t, testenv.Brief(6, 10), r, toHTTP(r.url()))
}

// In this process, so that the race detector sees the relay itself.
func TestG3_CancelUnderLoadRepeatsNothingInProcess(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, slowly(3*time.Millisecond))
	cfg, err := outrider.ParseConfig("in process", []byte(settings{
		database: db.url, top: quick, destination: toHTTP(to.url()), window: killWindow,
	}.text()))
	must(t, err)
	w := write(t, db.pool, false)
	t.Cleanup(func() {
		if t.Failed() { // where the relay waits
			_ = pprof.Lookup("goroutine").WriteTo(t.Output(), 1)
		}
	})
	run := func(enough func() bool) {
		relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- relay.Run(ctx) }()
		until(t, "delivered more", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("the relay has ended by itself: %v", err)
			default:
			}
			return enough()
		})
		cancel()
		must(t, <-ended)
	}
	const runs = 6
	for range runs {
		want := to.arrived() + 1 + rand.IntN(200)
		run(func() bool { return to.arrived() >= want })
	}
	w.stop()
	rows := db.rows()
	run(func() bool { return to.arrived() >= len(rows) })
	report := check.Compare(rows, to.all()...)
	t.Logf("%d runs that were cancelled: %v", runs, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// stopLoop stops the relay properly again and again under load, in a soak at
// least 100 times. It runs into a backlog each time, so that the stop meets
// deliveries in flight.
func stopLoop(t *testing.T, stops int, to destination, described string) {
	t.Helper()
	db := newDatabase(t)
	config := settings{database: db.url, top: quick, destination: described, window: killWindow}.text()
	w := write(t, db.pool, false)
	made := 0
	var recovery stopwatch
	for range rounds(t, stops, 100) {
		began := time.Now()
		before := to.arrived()
		r := start(t, config)
		// What the one before has sent may be seen only now.
		r.until("is ready", func() bool { return strings.Contains(r.output(), "msg=ready") })
		r.until("delivers", func() bool { return to.arrived() > before })
		recovery.since(began)
		want := before + 1 + rand.IntN(200)
		r.until("delivered more", func() bool { return to.arrived() >= want })
		r.stop()
		made++
	}
	w.stop()
	report := finish(t, db, config, to)
	tell(t, fmt.Sprintf("%d stops by SIGTERM", made), report, recovery)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}
