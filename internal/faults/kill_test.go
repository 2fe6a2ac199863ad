package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// destination is the destination of a scenario, as the tests see it.
type destination interface {
	arrived() int
	all() [][]check.Delivery
}

// The window and the settle interval of the kill loops: small, so that a kill
// has little to repeat and the bound on duplicates is worth something.
const killWindow = 64

var quick = []string{"settle_interval: 20ms", "lease: 5s"}

func TestG1_G2_G3_KillLoop(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	killLoop(t, testenv.Brief(12, 30), consume(t, brokers, topic), toKafka(brokers, topic))
}

func TestG1_G2_G3_KillLoopHTTP(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	r := receive(t, nil)
	killLoop(t, testenv.Brief(6, 10), r, toHTTP(r.url()))
}

// killLoop kills the relay again and again while messages are committed, lets
// it finish, and compares.
func killLoop(t *testing.T, kills int, to destination, described string) {
	t.Helper()
	db := newDatabase(t)
	killLoopOn(t, db, settings{database: db.url, top: quick, destination: described, window: killWindow}.text(), kills, to)
}

// killLoopOn is [killLoop] for a database and a configuration.
func killLoopOn(t *testing.T, db *database, config string, kills int, to destination) {
	t.Helper()
	w := write(t, db.pool, false)
	made, fruitful := 0, 0 // the second: kills of a relay that had delivered something
	for i := range rounds(t, kills, 4*kills) {
		before := to.arrived()
		r := start(t, config)
		if i%2 == 0 { // in the middle of its work
			r.until("delivers", func() bool { return to.arrived() > before })
			pause(t.Context(), rand.N(200*time.Millisecond))
		} else { // or at any time from the very beginning
			pause(t.Context(), rand.N(600*time.Millisecond))
		}
		r.kill()
		made++
		if to.arrived() > before {
			fruitful++
		}
	}
	w.stop()
	kills = made
	report := finish(t, db, config, to)
	t.Logf("%d kills, %d of them while it delivered: %v", kills, fruitful, report)
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
	if bound := kills * killWindow * lanes; report.Duplicates > bound {
		t.Errorf("%d duplicates, want at most %d", report.Duplicates, bound)
	}
	if fruitful < kills/3 {
		t.Errorf("only %d of %d kills met a relay that had delivered something", fruitful, kills)
	}
}

// finish lets a relay deliver what is left, stops it and compares. There is at
// least one message left, so that a relay is not stopped before it works.
func finish(t *testing.T, db *database, config string, to destination) check.Report {
	t.Helper()
	db.publish("last", 1)
	rows := db.rows()
	r := start(t, config)
	r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	r.stop()
	return check.Compare(db.rows(), to.all()...)
}
