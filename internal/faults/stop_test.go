package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestG3_SIGTERMUnderLoadRepeatsNothing(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := consume(t, brokers, topic)
	stopLoop(t, 20, to, toKafka(brokers, topic))
}

func TestG3_SIGTERMUnderLoadRepeatsNothingHTTP(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	r := receive(t, slowly(3*time.Millisecond))
	stopLoop(t, 10, r, toHTTP(r.url()))
}

// stopLoop stops the relay properly again and again under load. It runs into a
// backlog each time, so that the stop meets deliveries under way.
func stopLoop(t *testing.T, stops int, to destination, described string) {
	t.Helper()
	db := newDatabase(t)
	config := settings{database: db.url, top: quick, destination: described, window: killWindow}.text()
	w := write(t, db.pool, 400, false)
	for range stops {
		r := start(t, config)
		want := to.arrived() + 1 + rand.IntN(200)
		r.until("delivered more", func() bool { return to.arrived() >= want })
		r.stop()
	}
	w.stop()
	report := finish(t, db, config, to)
	t.Logf("%d stops by SIGTERM: %v", stops, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}
