package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

func TestG1_G2_PostgresRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := consume(t, brokers, topic)
	pg := testenv.StartPostgres(t)
	db := openDatabase(t, pg.URL())
	r := start(t, settings{database: db.url, top: quick, destination: toKafka(brokers, topic), window: killWindow}.text())
	w := write(t, db.pool, true)
	restarts := 0
	var recovery stopwatch
	deliver := func(n int) {
		t.Helper()
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+n })
	}
	deliver(200)
	for range rounds(t, testenv.Brief(2, 3), 10) {
		pause(t.Context(), rand.N(300*time.Millisecond))
		pg.Stop(server.Immediate)
		pg.Start()
		began := time.Now()
		deliver(1)
		recovery.since(began)
		deliver(200)
		restarts++
	}
	w.stop()
	rows := len(db.rows())
	r.until("delivered everything", func() bool { return to.arrived() >= rows })
	r.stop()
	report := check.Compare(db.rows(), to.all()...)
	tell(t, fmt.Sprintf("%d restarts of PostgreSQL (immediate)", restarts), report, recovery)
	if !report.Clean() || report.Duplicates > restarts*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}
