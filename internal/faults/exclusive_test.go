package faults_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// With exclusive: true the broker refuses the batch that a frozen owner was sending
// when it continues. (The tests of the adapter check that none of its records comes
// after the new owner's.)
func TestG1_G2_AFrozenOwnerIsShutOutOfKafka(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := committed(t, brokers, topic)
	f := newFleet(t, shortLease, toKafka(brokers, topic)+", exclusive: true, timeout: 5s, transactional_id: "+topic)
	for range 3 {
		f.join()
	}
	w := write(t, f.pool, false)
	freezes := 0
	f.worst = 0
	for range rounds(t, 1, 200) {
		before := to.arrived()
		f.members[0].until("delivers under load", func() bool { return to.arrived() > before+200 })
		r := f.any()
		f.remove(r)
		must(t, r.cmd.Process.Signal(syscall.SIGSTOP))
		f.spread() // over the two that are awake
		before = to.arrived()
		f.members[0].until("delivers in its place", func() bool { return to.arrived() > before+200 })
		must(t, r.cmd.Process.Signal(syscall.SIGCONT))
		worst := f.worst
		f.members = append(f.members, r)
		f.spread()
		f.worst = worst
		freezes++
	}
	report := f.end(w, to)
	t.Logf("%d instances frozen for longer than their lease of %v: %v, worst takeover %v",
		freezes, shortLease, report, f.worst.Round(time.Millisecond))
	if !report.Clean() || report.Duplicates > freezes*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}
