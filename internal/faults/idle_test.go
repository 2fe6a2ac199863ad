package faults_test

import (
	"fmt"
	"testing"
	"time"
)

// What an idle relay may ask of its database: one query per poll of its
// source, however many routes read it; one statement per heartbeat, a quarter
// of the lease apart; and, because the cursors' snapshots move on with what
// others do in the cluster, a settle every two seconds, of at most four
// statements.
const (
	idlePoll     = 500 * time.Millisecond
	idleLease    = 10 * time.Second
	idleSettle   = 2 * time.Second
	settleCost   = 4
	idleInterval = 15 * time.Second
)

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
			const settled = "SELECT count(*) FROM outrider_cursor WHERE position > 0 AND beyond = '{}'"
			r.until("delivered and settled everything", func() bool {
				return to.arrived() >= 100 && one[int](db, settled) == routes*lanes
			})
			before, began := p.count(), time.Now()
			pause(t.Context(), idleInterval)
			got, took := p.count()-before, time.Since(began)
			r.stop()
			times := func(every time.Duration) int { return int(took/every) + 1 }
			most := times(idlePoll) + times(idleLease/4) + settleCost*times(idleSettle)
			t.Logf("%d routes on one source, idle for %v: %d statements, at most %d allowed (%d polls, %d heartbeats, %d settles of %d)",
				routes, took.Round(time.Millisecond), got, most, times(idlePoll), times(idleLease/4), times(idleSettle), settleCost)
			if got > most {
				t.Errorf("%d statements in %v, want at most %d", got, took, most)
			}
		})
	}
}
