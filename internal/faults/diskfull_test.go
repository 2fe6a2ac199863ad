//go:build linux

package faults_test

import (
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
)

// largestFile limits the files of a process while its disk is full. The database's
// write-ahead log is larger already.
const largestFile = 64 << 10

// diskFull keeps the process from writing beyond a size, or lets it again. An
// ordinary user can do that to one process while it runs; to fill a disk of its
// own would take more rights than tests have.
func (r *relay) diskFull(full bool) {
	r.t.Helper()
	limit := unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	if full {
		limit.Cur = largestFile
	}
	must(r.t, unix.Prlimit(r.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// newSQLite makes a database file with n messages of so many groups, of which
// the log cannot start again.
func newSQLite(t *testing.T, n, groups int) (path string, db *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	db, err := sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = owntable.Init(t.Context(), db, "")
	must(t, err)
	// A reader of how it was before keeps the log from being emptied.
	reader, err := db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, reader.Close()) })
	_, err = reader.ExecContext(t.Context(), "BEGIN DEFERRED")
	must(t, err)
	var none int
	must(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM outrider_outbox").Scan(&none))
	_, err = db.ExecContext(t.Context(), `
		WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?1)
		INSERT INTO outrider_outbox (id, type, message_group, payload)
		SELECT 'm' || i, 'order.created', 'g' || (i % ?2), json_object('id', 'm' || i, 'group', 'g' || (i % ?2)) FROM numbers`, n, groups)
	must(t, err)
	return path, db
}

// TestG1_G2_G3_SQLiteDiskIsFull fills the disk of the relay's database: the relay
// delivers the messages in its windows, logs the reason, and continues when there is
// space again. Then it is killed in that state.
func TestG1_G2_G3_SQLiteDiskIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	const window = 16
	messages := size(t, 3_000, 200_000)
	path, db := newSQLite(t, messages, 100)
	to := receive(t, slowly(2*time.Millisecond))
	config := fmt.Sprintf("admin: {listen: off}\nsettle_interval: 20ms\nsources: {app: {type: sqlite, path: %q}}\n"+
		"destinations: {there: {%s}}\nroutes: {orders: {from: app, to: there, window: %d}}\n", path, toHTTP(to.url()), window)

	var recovery stopwatch
	faults := 0
	fill := func(r *relay) {
		t.Helper()
		before := to.arrived()
		r.until("delivers", func() bool { return to.arrived() > before })
		r.diskFull(true)
		r.says("progress cannot be written.*free space on the disk")
		faults++
	}
	r := start(t, config)
	for range rounds(t, 2, 10) {
		fill(r)
		full := to.arrived()
		pause(t.Context(), 300*time.Millisecond)
		if n := to.arrived() - full; n > window*lanes {
			t.Errorf("%d messages arrived while nothing could be written, want at most %d", n, window*lanes)
		}
		r.diskFull(false)
		began, before := time.Now(), to.arrived()
		r.until("goes on", func() bool { return to.arrived() > min(before+window*lanes, messages-1) })
		recovery.since(began)
		if before > messages/2 {
			break
		}
	}
	if again := len(to.all()[0]) - to.arrived(); again > 0 {
		t.Errorf("%d messages were repeated without a kill", again)
	}
	fill(r)
	r.kill()
	r = start(t, config)
	r.until("delivered everything", func() bool { return to.arrived() >= messages })
	r.stop()
	report := check.Compare(sqliteRows(t, db), to.all()...)
	tell(t, fmt.Sprintf("a full disk %d times, 1 kill", faults), report, recovery)
	if !report.Clean() || report.Duplicates > window*lanes {
		t.Errorf("not clean, or more duplicates than a window holds: %v", report)
	}
}
