package faults_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The lease of the instance that is killed: nobody waits for it to run out.
const longLease = 5 * time.Minute

func TestG1_G2_G3_TakeoverWithoutWaitingForTheLease(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	db, topic := newDatabase(t), newTopic(t, brokers)
	to := consume(t, brokers, topic)
	config := settings{
		database: db.url, top: []string{"settle_interval: 20ms", "lease: " + longLease.String()},
		destination: toKafka(brokers, topic), window: killWindow,
	}.text()
	first := start(t, config)
	first.until("delivers", func() bool { db.publish("warm", 1); return to.arrived() > 0 })
	began := time.Now()
	w := write(t, db.pool, false)
	second := start(t, config)
	second.says("standing by")
	const kills = 4
	for range kills {
		before := to.arrived()
		first.until("delivers under load", func() bool { return to.arrived() > before+200 })
		first.kill()
		before = to.arrived()
		second.until("delivers in the place of the other", func() bool { return to.arrived() > before+100 })
		first, second = second, start(t, config)
		second.says("standing by")
	}
	if took := time.Since(began); took > longLease {
		t.Errorf("%d takeovers took %v: no shorter than the lease", kills, took)
	}
	w.stop()
	rows := len(db.rows())
	first.until("delivers everything", func() bool { return to.arrived() >= rows })
	first.stop()
	second.stop()
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("%d takeovers after kill -9, lease %v: %v", kills, longLease, report)
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

func TestSecondInstanceOnSQLiteIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sqlite.Open(path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = sqlite.Init(t.Context(), db, "")
	must(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO outrider_outbox (type, payload) VALUES ('t', '{"id": "1"}')`)
	must(t, err)
	to := receive(t, nil)
	config := fmt.Sprintf("admin: {listen: off}\nsources: {app: {type: sqlite, path: %q}}\n"+
		"destinations: {there: {%s}}\nroutes: {orders: {from: app, to: there}}\n", path, toHTTP(to.url()))
	first := start(t, config)
	first.until("delivers", func() bool { return to.arrived() > 0 })
	second := start(t, config)
	if err := second.wait(); err == nil {
		t.Error("the second instance ended with status 0, want a failure")
	}
	second.says("another instance is running on this database")
	first.stop()
}
