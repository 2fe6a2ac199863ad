package faults_test

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// mysqlState is the state of a fleet in MariaDB or MySQL, seen from outside.
type mysqlState struct {
	t  *testing.T
	db *sql.DB
}

// migrateMySQL makes the state tables, before there is an instance.
func migrateMySQL(t *testing.T, url string) {
	t.Helper()
	state, err := statestore.New(t.Context(), statestore.Config{URL: url})
	must(t, err)
	must(t, state.Migrate(t.Context()))
	must(t, state.Close())
}

// newMySQLFleet is [newFleet] for a table in PostgreSQL whose state is in MariaDB or MySQL.
func newMySQLFleet(t *testing.T, lease time.Duration, destination string) *fleet {
	t.Helper()
	url := testenv.MySQL(t)
	migrateMySQL(t, url)
	db, err := mysql.Open(url, mysql.TLS{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s := &mysqlState{t: t, db: db}
	s.exec(`CREATE TABLE moved_back (route VARBINARY(255), slot INT)`)
	s.exec(`CREATE TRIGGER moved AFTER UPDATE ON outrider_cursor FOR EACH ROW INSERT INTO moved_back
		SELECT OLD.route, OLD.slot FROM dual WHERE NEW.position < OLD.position AND NEW.window_snapshot = '' OR NEW.epoch < OLD.epoch`)
	from := newDatabase(t)
	return &fleet{database: from, mysql: s, config: settings{
		database: from.url, top: []string{"settle_interval: 20ms", "lease: " + lease.String(), "state: {url: " + url + "}"},
		destination: destination, window: killWindow,
	}.text()}
}

func (s *mysqlState) exec(statement string) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), statement)
	must(s.t, err)
}

func (s *mysqlState) count(query string, args ...any) (n int) {
	s.t.Helper()
	must(s.t, s.db.QueryRowContext(s.t.Context(), query, args...).Scan(&n))
	return n
}

// joined reports whether an instance has announced itself.
func (s *mysqlState) joined(name string) bool {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM outrider_instance WHERE id = ? AND routes <> '[]'`, name) == 1
}

// even reports whether the instances own all lanes, evenly to within one.
func (s *mysqlState) even(names []string) bool {
	s.t.Helper()
	owned, sum := make([]int, len(names)), 0
	for i, name := range names {
		owned[i] = s.count(`SELECT count(*) FROM outrider_cursor WHERE owner = ?`, name)
		sum += owned[i]
	}
	return sum == lanes && slices.Max(owned)-slices.Min(owned) <= 1
}

// movedBack is how often a cursor or an epoch did.
func (s *mysqlState) movedBack() int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM moved_back`)
}

// One of three instances whose state is in MariaDB is killed again and again. Its lanes move long before its
// lease is over, because the server frees its lock with the connection.
func TestG1_G2_G3_TakeoverWithStateInMySQL(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(2*time.Millisecond))
	f := newMySQLFleet(t, longLease, toHTTP(to.url()))
	for range 3 {
		f.join()
	}
	w := write(t, f.pool, false)
	kills := 0
	f.worst = 0
	for range rounds(t, testenv.Brief(2, 3), 50) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+200 })
		r := f.any()
		f.remove(r)
		r.kill()
		f.spread()
		kills++
		worst := f.worst
		f.join()
		f.worst = worst // of takeovers alone
	}
	report := f.end(w, to)
	t.Logf("%d kills of one of 3 instances, lease %v: %v, worst takeover %v", kills, longLease, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
	if f.worst > longLease/2 {
		t.Errorf("a takeover took %v: somebody waited for the lease", f.worst)
	}
}

// Instances join and leave under load: each time the lanes are spread evenly again, and nothing is delivered twice.
func TestG1_G2_G3_InstancesJoinAndLeaveWithStateInMySQL(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(5*time.Millisecond))
	f := newMySQLFleet(t, longLease, toHTTP(to.url()))
	f.join()
	w := write(t, f.pool, false)
	for range rounds(t, 1, 50) {
		f.joinAndLeave(to)
	}
	report := f.end(w, to)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// The server of the state is killed under load, and comes back.
func TestG1_G2_G3_MariaDBOfTheStateRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	const window = 16
	maria := testenv.StartMariaDB(t)
	to := receive(t, nil)
	db := newDatabase(t)
	r := start(t, settings{database: db.url, top: append(slices.Clone(quick), "state: {url: "+maria.Database()+"}"), destination: toHTTP(to.url()), window: window}.text())
	w := write(t, db.pool, false)
	deliver := func(n int) {
		t.Helper()
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+n })
	}
	deliver(100)
	restarts := 0
	for range rounds(t, 1, 10) {
		maria.Kill()
		maria.Start()
		deliver(window * lanes) // more than was in flight before
		restarts++
	}
	w.stop()
	rows := len(db.rows())
	r.until("delivered everything", func() bool { return to.arrived() >= rows })
	r.stop()
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("%d restarts of MariaDB: %v", restarts, report)
	if !report.Clean() || report.Duplicates > restarts*window*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}
