package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// Failovers of two PostgreSQL servers under load: the primary is killed, or stopped in a switchover, its standby is promoted, and it comes back as a
// standby. All that the new primary has arrives, in order. A synchronous standby has all that was delivered; an asynchronous one lacks the last commits.
func TestG1_G2_Failovers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]failover{
		"synchronous, state beside":     {synchronous: true},
		"synchronous, state elsewhere":  {synchronous: true, elsewhere: true},
		"asynchronous, state beside":    {},
		"asynchronous, state elsewhere": {elsewhere: true},
		"switchover, state elsewhere":   {mode: server.Fast, elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

// failover is a way to fail over.
type failover struct {
	synchronous bool            // commits wait for the standby
	elsewhere   bool            // the state is in a database that stays
	mode        server.StopMode // of the primary. Default: immediate
}

// loses reports whether the new primary lacks commits of the former one.
func (f failover) loses() bool { return !f.synchronous && f.mode == "" }

func (f failover) run(t *testing.T) {
	t.Helper()
	var replication []string
	if f.synchronous {
		replication = []string{"synchronous_standby_names = '*'"}
	}
	pair := testenv.StartPostgresPair(t, replication...)
	db := openDatabase(t, pair.URL())
	to := receive(t, nil)
	top := quick
	if f.elsewhere {
		top = append(slices.Clone(top), fmt.Sprintf("state: {url: %q}", testenv.Postgres(t)))
	}
	config := settings{database: db.url, top: top, destination: toHTTP(to.url()), window: killWindow}.text()
	r := start(t, config)
	w := write(t, db.pool, true)
	gone := map[string]bool{} // delivered, and lost by a failover
	failovers, stops := 0, 0
	var recovery stopwatch
	for i := range rounds(t, testenv.Brief(1, 3), 40) {
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+50 })
		if f.loses() {
			cut(t, pair)
			lacks := fmt.Sprint("lost ", i, " ")
			db.fill(batch{n: 50, groups: 20, prefix: lacks})
			r.until("delivers what the standby lacks", func() bool { return to.arrivedOf(lacks) == 50 })
		}
		pair.Fail(f.mode)
		began := time.Now()
		pair.Rejoin(i%2 == 0)
		all := fmt.Sprint("all ", i, " ") // groups in all lanes
		until(t, "the primary takes writes", func() bool {
			_, err := db.pool.Exec(t.Context(), fillSQL, 200, 100, all, "", 0)
			return err == nil
		})
		until(t, "the relay delivers again, or has stopped", func() bool { return to.arrivedOf(all) >= 200 || r.ended() })
		if r.ended() {
			stops++
			if !f.loses() || !strings.Contains(r.output(), "(outrider rebase orders0)") {
				t.Fatal("the relay has stopped")
			}
			r.outrider("rebase", "orders0", "--yes")
			r = start(t, config)
		}
		r.until("delivers again", func() bool { return to.arrivedOf(all) >= 200 })
		recovery.since(began)
		failovers++
		if f.loses() { // now: what the relay had read before may have arrived after the failover
			lost := lacking(t, pair, to.all()[0])
			for _, id := range lost {
				gone[id] = true
			}
			if len(lost) == 0 {
				t.Error("the failover lost nothing that was delivered")
			}
		}
	}
	if !f.elsewhere && stops > 0 {
		t.Errorf("the route stopped %d times, with its state in the same database", stops)
	}
	w.stop()
	rows := len(db.rows())
	r.until("delivered everything", func() bool { return to.arrived()-len(gone) >= rows })
	r.stop()
	got := slices.DeleteFunc(to.all()[0], func(d check.Delivery) bool { return gone[d.ID] })
	report := check.Compare(db.rows(), got)
	tell(t, fmt.Sprintf("%d failovers, which lost %d delivered messages and stopped the route %d times", failovers, len(gone), stops), report, recovery)
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
}

// cut has the standby receive nothing more.
func cut(t *testing.T, pair *testenv.PostgresPair) {
	t.Helper()
	standby := openPool(t, pair.Standby.URL())
	standby.exec("ALTER SYSTEM SET primary_conninfo = ''")
	standby.exec("SELECT pg_reload_conf()")
	until(t, "the standby receives nothing", func() bool { return one[int](standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0 })
	standby.pool.Close()
}

// lacking returns the ids of deliveries whose rows the primary does not have.
func lacking(t *testing.T, pair *testenv.PostgresPair, had []check.Delivery) (ids []string) {
	t.Helper()
	primary := openPool(t, pair.Primary.URL())
	defer primary.pool.Close()
	there := map[string]bool{}
	for _, r := range primary.rows() {
		there[r.ID] = true
	}
	for _, d := range had {
		if !there[d.ID] {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// ended reports whether the process has ended.
func (r *relay) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
