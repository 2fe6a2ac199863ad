package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// pairsByOwner counts the pairs of each instance. A pair has one owner at a time.
const pairsByOwner = `SELECT coalesce(array_agg(n ORDER BY n), '{}') FROM (SELECT count(DISTINCT route) n FROM outrider_cursor WHERE owner IS NOT NULL GROUP BY owner) o`

// With leader: false pairs are spread over three instances. When one of them is killed, the remaining instances take over its pairs, and every event of a
// topic is delivered, in order.
func TestG1_G2_G3_CrabletPairsOverThreeInstances(t *testing.T) {
	t.Parallel()
	s := newEventStore(t, crabletV1)
	to, delay := receiveTimed(t)
	pairs, busy, each := size(t, 12, 500), size(t, 6, 20), size(t, 100, 3000)
	config := strings.Replace(pairsConfig(s.url, to.url(), pairs), "layout: crablet", "layout: crablet, leader: false", 1) + "lease: 5s\n"
	began := time.Now()
	var members []*relay
	for range 3 {
		members = append(members, start(t, config))
	}
	spread := func(over int) {
		t.Helper()
		members[0].until(fmt.Sprint("has its share among ", over), func() bool {
			owned := one[[]int](s.database, pairsByOwner)
			sum := 0
			for _, n := range owned {
				sum += n
			}
			return len(owned) == over && sum == pairs && owned[over-1]-owned[0] <= 1
		})
	}
	for _, r := range members {
		r.says("msg=ready")
	}
	spread(3)
	took := time.Since(began)
	failed := make(chan error, busy)
	for n := range busy {
		go func() { failed <- s.appendTimed(t.Context(), fmt.Sprint("t", n), each, 10*time.Millisecond) }()
	}
	members[0].until("delivers with the others", func() bool { return to.arrived() >= busy*each/2 })
	killed := time.Now()
	members[2].kill()
	spread(2)
	recovery := time.Since(killed)
	for range busy {
		must(t, <-failed)
	}
	until(t, "everything is delivered", func() bool { return to.arrived() >= busy*each })
	for _, r := range members[:2] {
		r.stop()
	}
	report := check.Compare(s.committed(), to.all()...)
	tell(t, fmt.Sprintf("%d pairs over 3 instances, spread %v after the start, over 2 %v after a kill; %v", pairs, took.Round(time.Millisecond), recovery.Round(time.Millisecond), delay), report, stopwatch{})
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
}
