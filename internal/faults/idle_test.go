package faults_test

import (
	"fmt"
	"testing"
	"time"
)

// The statements of an idle relay: one query per poll of its source, however many
// routes read it; one statement per heartbeat, which come a quarter of the lease apart;
// a query of the instances once a second; and a settle every two seconds, because the
// cursors' snapshots advance with the transactions of the whole cluster. The pool pings
// a connection that was unused for a second, so a late query comes with a ping.
const (
	idlePoll  = 500 * time.Millisecond
	idleLease = 10 * time.Second
	idleLook  = time.Second
	idleBeat  = 1500 * time.Millisecond // a quarter of the lease, and often enough to obey a pause within two seconds

	idleOperations = 2 * time.Second // between looks for operations
	idleSettle     = 2 * time.Second
	pooledCost     = 2
	idleInterval   = 8 * time.Second
)

// settledEverything reports whether all $1 lanes exist and their positions are after
// the last row of their slot.
const settledEverything = `
SELECT count(*) = $1 AND bool_and(c.beyond = '{}' AND c.position >= last)
FROM outrider_cursor c, LATERAL (SELECT coalesce(max(position), 0) AS last FROM outrider_outbox o WHERE o.slot = c.slot) l`

// rewritten counts the writes of cursor rows in the server's statistics.
const rewritten = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'outrider_cursor'"

func TestG9_IdleCost(t *testing.T) {
	t.Parallel()
	for _, routes := range []int{1, 50} {
		t.Run(fmt.Sprint(routes, " routes"), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			p, through := countStatements(t, db.url)
			to := receive(t, nil)
			db.fill(batch{n: 100, groups: 50})
			r := start(t, settings{
				database: through, top: []string{"lease: " + idleLease.String()}, routes: routes,
				poll: fmt.Sprintf("{min: %v, max: %v}", idlePoll, idlePoll), destination: toHTTP(to.url()),
			}.text())
			r.until("delivered and settled everything", func() bool {
				return to.arrived() >= 100 && one[bool](db, settledEverything, routes*lanes)
			})
			heartbeats(db, r, 2) // what follows a start, such as a first look for commands, is over
			before, rows, began := p.count(), one[int](db, rewritten), time.Now()
			pause(t.Context(), idleInterval)
			got, took := p.count()-before, time.Since(began)
			rows = one[int](db, rewritten) - rows
			r.stop()
			times := func(every time.Duration) int { return int(took/every) + 1 }
			most := times(idlePoll) + times(idleBeat) + pooledCost*(times(idleLook)+times(idleSettle)+times(idleOperations))
			t.Logf("%d routes on one source, idle for %v: %d statements, at most %d allowed (%d polls, %d heartbeats, %d looks and %d settles of %d); %d cursor rows rewritten",
				routes, took.Round(time.Millisecond), got, most, times(idlePoll), times(idleBeat), times(idleLook), times(idleSettle), pooledCost, rows)
			if got > most {
				t.Errorf("%d statements in %v, want at most %d", got, took, most)
			}
		})
	}
}

// heartbeats waits for so many renewals of the lease.
func heartbeats(db *database, r *relay, n int) {
	db.t.Helper()
	const query = "SELECT max(lease_until) FROM outrider_instance"
	last := one[time.Time](db, query)
	r.until("renews its lease", func() bool {
		if until := one[time.Time](db, query); until.After(last) {
			last = until
			n--
		}
		return n == 0
	})
}
