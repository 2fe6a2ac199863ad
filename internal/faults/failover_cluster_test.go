package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

const (
	// clusterURL is an empty database of a cluster of PostgreSQL, with a cluster manager or managed.
	clusterURL = "OUTRIDER_TEST_CLUSTER_URL"

	// clusterFailover is a command that fails the cluster over, and returns when both servers are there again.
	clusterFailover = "OUTRIDER_TEST_CLUSTER_FAILOVER"
)

// A cluster of the caller's is failed over under load. All that its primary has arrives, in order (docs/high-availability.md).
func TestG1_G2_FailoversOfACluster(t *testing.T) {
	t.Parallel()
	url, failover := os.Getenv(clusterURL), os.Getenv(clusterFailover)
	if url == "" || failover == "" {
		t.Skipf("%s and %s are not set", clusterURL, clusterFailover)
	}
	db := openDatabase(t, url)
	to := receive(t, nil)
	r := start(t, settings{database: db.url, top: quick, destination: toHTTP(to.url()), window: killWindow}.text())
	w := write(t, db.pool, true)
	failovers := 0
	var recovery stopwatch
	for range rounds(t, 10, 50) {
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+50 })
		began := time.Now()
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", failover).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		before = to.arrived()
		r.until("delivers again", func() bool { return to.arrived() > before })
		recovery.since(began)
		failovers++
	}
	w.stop()
	var rows []check.Row
	until(t, "the primary answers", func() bool {
		if db.pool.Ping(t.Context()) != nil {
			return false
		}
		rows = db.rows()
		return true
	})
	r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	r.stop()
	report := check.Compare(rows, to.all()...)
	tell(t, fmt.Sprintf("%d failovers of the cluster", failovers), report, recovery)
	if report.Lost > 0 || report.OutOfOrder > 0 {
		t.Errorf("not clean: %v", report)
	}
}
