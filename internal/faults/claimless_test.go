package faults_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// claimlessFleet is instances that share a table without a status for rows that are being processed, and what changed
// rows that were final.
type claimlessFleet struct {
	*fleet
	table *presetTable
	to    *receiver
	stop  func() // the writers
}

func newClaimlessFleet(t *testing.T, lease time.Duration) *claimlessFleet {
	t.Helper()
	p := newPreset(t, originals["outbox-framework"])
	to := receive(t, slowly(5*time.Millisecond))
	config := p.config(busy, fmt.Sprintf("type: http, url: %q", to.url()), "")
	config = strings.Replace(config, "lease: 5s", "lease: "+lease.String(), 1)
	initialise(t, config)
	p.exec(`CREATE TABLE reopened (LIKE outbox_event)`)
	p.exec(`CREATE FUNCTION reopen() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO reopened SELECT (OLD).*; RETURN NULL; END$$`)
	p.exec(`CREATE TRIGGER reopened AFTER UPDATE ON outbox_event FOR EACH ROW WHEN (OLD.status IN (1, 3)) EXECUTE FUNCTION reopen()`)
	f := &claimlessFleet{&fleet{database: p.database, config: config}, p, to, p.writeEvery(20 * time.Millisecond)}
	t.Cleanup(f.stop)
	return f
}

// loaded waits until so many more have arrived.
func (f *claimlessFleet) loaded(n int) {
	f.t.Helper()
	before := f.to.arrived()
	f.members[0].until("delivers under load", func() bool { return f.to.arrived() > before+n })
}

// finish has everything delivered, and compares.
func (f *claimlessFleet) finish() check.Report {
	f.t.Helper()
	f.stop()
	f.members[0].until("settled everything", func() bool { return f.table.count("status <> 1") == 0 })
	for _, r := range f.members {
		r.stop()
	}
	if n := f.table.count("NOT (" + f.table.finished + ")"); n > 0 {
		f.t.Errorf("%d rows are not as the original leaves them", n)
	}
	if n := one[int](f.database, "SELECT count(*) FROM reopened"); n > 0 {
		f.t.Errorf("%d rows were changed after they were final", n)
	}
	return check.Compare(f.table.committed(), f.to.all()...)
}

// Instances join and leave under load: lanes move without a claim in the table, and nothing is delivered twice.
func TestG1_G2_G3_ClaimlessInstancesJoinAndLeave(t *testing.T) {
	t.Parallel()
	f := newClaimlessFleet(t, longLease)
	f.join()
	for range rounds(t, 1, 30) {
		f.joinAndLeave(f.to)
	}
	if report := f.finish(); !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// One of three instances is killed, leaves, or is frozen for longer than its lease, again and again. No claim has to
// time out first; messages in flight come again, in order, and a frozen instance settles nothing in lanes that it has lost.
func TestG1_G2_ClaimlessInstancesAreKilledAndFrozen(t *testing.T) {
	t.Parallel()
	f := newClaimlessFleet(t, shortLease)
	for range 3 {
		f.join()
	}
	kills, freezes := 0, 0
	for round := range rounds(t, 3, 75) {
		f.loaded(100)
		r := f.any()
		f.remove(r)
		switch round % 3 {
		case 0:
			r.kill()
			kills++
		case 1:
			must(t, r.cmd.Process.Signal(syscall.SIGSTOP))
			f.spread()
			f.loaded(50)
			must(t, r.cmd.Process.Signal(syscall.SIGCONT))
			f.members = append(f.members, r)
			freezes++
			f.spread()
			continue
		default:
			r.stop()
		}
		f.spread()
		f.join()
	}
	report := f.finish()
	t.Logf("%d kills and %d freezes of one of 3 instances without claims: %v, worst even spread %v", kills, freezes, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > (kills+freezes)*1000 {
		t.Errorf("not clean: %v", report)
	}
}
