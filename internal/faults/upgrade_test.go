package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The upgrades of log tables: the number of rows at first, and the number that the
// former build delivers before it is killed. That is more than a kill may repeat, so
// the test notices a relay that starts again at the beginning.
const (
	upgradeBacklog   = 6000
	upgradeDelivered = 3000
)

// upgraded is a log table in the hands of a former relay.
type upgraded struct {
	config func(destination string) string
	write  func() (stop func()) // commits messages until stop is called
	rows   func() []check.Row
	parked func() int // messages that are not dead
}

// TestG1_G2_G3_UpgradeOfTheOwnTable kills a relay of the former build, on tables that it
// has made itself, while messages are parked and others are in flight. One of this
// build continues from there.
func TestG1_G2_G3_UpgradeOfTheOwnTable(t *testing.T) {
	t.Parallel()
	binary := formerProgram(t)
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	db := &database{t, url, pool}
	config := func(to string) string {
		return settings{database: url, top: quick, destination: to, window: killWindow,
			middleware: "[poison, {retry: {attempts: 1000, base: 20ms, max: 200ms}}, timeout]"}.text()
	}
	formerTables(t, binary, config(toHTTP("http://localhost:1/")))
	db.fill(batch{n: upgradeBacklog, groups: writerGroups})
	upgraded{
		config: config, rows: db.rows,
		write:  func() func() { return write(t, pool, false).stop },
		parked: func() int { return db.parked("status <> 'dead'") },
	}.upgrade(t, binary)
}

// TestG1_G2_G3_UpgradeOnSQLite is the same for a file.
func TestG1_G2_G3_UpgradeOnSQLite(t *testing.T) {
	t.Parallel()
	binary := formerProgram(t)
	path := filepath.Join(t.TempDir(), "app.db")
	config := func(to string) string {
		return fmt.Sprintf("admin: {listen: off}\n%s\nsources: {app: {type: sqlite, path: %q, poll: {max: 50ms}}}\n"+
			"destinations: {there: {%s}}\nroutes: {orders: {from: app, to: there, window: %d, "+
			"middleware: [poison, {retry: {attempts: 1000, base: 20ms, max: 200ms}}, timeout]}}\n",
			strings.Join(quick, "\n"), path, to, killWindow)
	}
	formerTables(t, binary, config(toHTTP("http://localhost:1/")))
	db, err := sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, publishSQLite(t.Context(), db, upgradeBacklog))
	upgraded{
		config: config,
		write:  func() func() { return writeSQLite(t, db) },
		rows:   func() []check.Row { return sqliteRows(t, db) },
		parked: func() (n int) {
			must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM outrider_parked WHERE status <> 'dead'").Scan(&n))
			return n
		},
	}.upgrade(t, binary)
}

// formerTables has a build make the tables of its sources.
func formerTables(t *testing.T, binary, config string) {
	t.Helper()
	file := writeConfig(t, config)
	must(t, run(filepath.Dir(file), nil, binary, "init", "-c", file))
}

// upgrade kills a relay of the former build and has one of this build deliver the rest.
func (u upgraded) upgrade(t *testing.T, binary string) {
	t.Helper()
	var replaced atomic.Bool
	to := receive(t, func(_ *http.Request, batch []payload) int {
		for _, p := range batch {
			if strings.HasSuffix(p.Group, "7") && !replaced.Load() {
				return http.StatusInternalServerError // its messages are parked
			}
		}
		return http.StatusOK
	})
	config := u.config(toHTTP(to.url() + "/{{.Group}}"))
	stop := u.write()
	defer stop()
	r := startBinary(t, binary, config)
	parked := 0
	r.until("delivers much and parks some", func() bool {
		parked = u.parked()
		return parked > 0 && to.arrived() > upgradeDelivered
	})
	r.kill()
	before := to.arrived()
	replaced.Store(true)
	r = start(t, config)
	r.until("goes on", func() bool { return to.arrived() > before+upgradeDelivered/10 })
	stop()
	rows := u.rows()
	r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	r.until("has nothing parked", func() bool { return u.parked() == 0 })
	r.stop()
	report := check.Compare(rows, to.all()...)
	t.Logf("the former build delivered %d messages and parked %d: %v", before, parked, report)
	if !report.Clean() || report.Duplicates > killWindow*lanes {
		t.Errorf("want nothing lost or out of order, and at most %d duplicates: %v", killWindow*lanes, report)
	}
}

// writeSQLite commits messages until stop is called.
func writeSQLite(t *testing.T, db *sql.DB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := publishSQLite(context.WithoutCancel(ctx), db, 5); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			pause(ctx, 10*time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// publishSQLite commits n messages in one transaction.
func publishSQLite(ctx context.Context, db *sql.DB, n int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	for i := range n {
		p := payload{ID: ulid.Make().String(), Group: fmt.Sprint("g", i%writerGroups)}
		content, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES (?, 'order.created', ?, ?)",
			p.ID, p.Group, string(content)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// TestG1_G2_UpgradeOfFlowCatalyst kills a relay of the former build while rows are
// claimed, those of one group without being delivered. One of this build takes them over
// after the time for claims, and works the rest.
func TestG1_G2_UpgradeOfFlowCatalyst(t *testing.T) {
	t.Parallel()
	binary := formerProgram(t)
	c := newCatalyst(t)
	hanging := make(chan struct{})
	replaced := sync.OnceFunc(func() { close(hanging) })
	defer replaced()
	to := newAPI(t, func(items []item) int {
		if items[0].Group != "g3" {
			return 0
		}
		select {
		case <-hanging:
			return 0
		default:
			<-hanging
			return http.StatusServiceUnavailable // to a relay that is dead
		}
	})
	to.killed = true
	config := c.config(to.url(), stuckSoon)
	c.fill("backlog", 20, 50)
	stop := c.write()
	defer stop()
	r := startBinary(t, binary, config)
	const undelivered = "status = 'PROCESSING' AND message_group = 'g3'"
	r.until("delivers much while rows are claimed", func() bool { return to.arrived() > 500 && c.count(undelivered) > 0 })
	r.kill()
	replaced()
	before, claimed := to.arrived(), c.count("status = 'PROCESSING'")
	if c.count(undelivered) == 0 {
		t.Error("no row is claimed and undelivered: the scenario is too easy")
	}
	r = start(t, config)
	r.until("goes on", func() bool { return to.arrived() > before+300 })
	stop()
	r.until("delivered and settled everything", func() bool { return c.count("status <> 'COMPLETED'") == 0 })
	r.stop()
	report := c.compare(to)
	t.Logf("the former build delivered %d items and left %d claimed", before, claimed)
	if bound := 1000; report.Duplicates > bound { // in memory at most
		t.Errorf("%d duplicates, want at most %d", report.Duplicates, bound)
	}
	if got, want := c.statuses(), c.completed(report.Committed); got != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
}
