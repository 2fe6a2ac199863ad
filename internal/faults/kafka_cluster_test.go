package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outriderhq/outrider/internal/testenv"
)

// leader is the broker that leads a partition.
func (l *log) leader(partition int32) (node int32) {
	l.t.Helper()
	until(l.t, "the partition has a leader", func() bool {
		topics, err := l.admin.ListTopics(l.t.Context(), l.topic)
		node = topics[l.topic].Partitions[partition].Leader
		return err == nil && node > 0
	})
	return node
}

// coordinator is the broker that coordinates the group.
func (l *log) coordinator() (node int32) {
	l.t.Helper()
	until(l.t, "the group has a coordinator", func() bool {
		found := l.admin.FindGroupCoordinators(l.t.Context(), l.topic)[l.topic]
		node = found.NodeID
		return found.Err == nil && node > 0
	})
	return node
}

// replicated waits until each replica of the topic, and of the topic of offsets, is in sync.
func (l *log) replicated() {
	l.t.Helper()
	until(l.t, "all replicas are in sync", func() bool {
		topics, err := l.admin.ListTopicsWithInternal(l.t.Context(), l.topic, "__consumer_offsets")
		in := err == nil && topics.Error() == nil
		topics.EachPartition(func(p kadm.PartitionDetail) { in = in && len(p.ISR) == int(l.replicas) })
		return in
	})
}

// The leader of a partition and the coordinator of the group are killed in turn, while three members deliver. While the broker is away, each
// partition is delivered up to where it ended, and committed.
func TestG1_G2_BrokersOfAClusterAreKilled(t *testing.T) {
	t.Parallel()
	full(t) // a cluster of its own
	const nodes = 3
	brokers := testenv.StartKafkaCluster(t, nodes)
	var addresses []string
	for _, b := range brokers {
		addresses = append(addresses, b.Brokers()...)
	}
	l := newReplicatedLog(t, addresses, nodes, lanes, map[string]string{"min.insync.replicas": "2"})
	to := receive(t, slowly(2*time.Millisecond))
	f := newGroup(t, l, toHTTP(to.url()))
	for range 3 {
		f.join()
	}
	stop := l.keepWriting(1000)
	kills := 0
	var recovery stopwatch
	for round := range rounds(t, 4, 20) {
		before := to.arrived()
		f.members[0].until("delivers", func() bool { return to.arrived() > before+100 })
		l.replicated()
		node := l.leader(int32(round % lanes))
		if round%2 == 1 {
			node = l.coordinator()
		}
		brokers[node-1].Kill()
		killed := time.Now()
		ends := l.ends()
		f.members[0].until("has delivered each partition up to there", func() bool { return l.committedUpTo(ends) })
		recovery.since(killed)
		brokers[node-1].Start()
		kills++
	}
	f.spread()
	stop()
	report := f.endGroup(l.rows(), to)
	tell(t, fmt.Sprintf("%d kills of brokers of a cluster", kills), report, recovery)
	if !report.Clean() || report.Duplicates > kills*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
}

// ends are the offsets at which the partitions end, once each has a leader.
func (l *log) ends() (out map[int32]int64) {
	l.t.Helper()
	until(l.t, "each partition has a leader", func() bool {
		listed, err := l.admin.ListEndOffsets(l.t.Context(), l.topic)
		out = map[int32]int64{}
		for p, end := range listed[l.topic] {
			out[p] = end.Offset
		}
		return err == nil && listed.Error() == nil && len(out) == lanes
	})
	return out
}

// committedUpTo reports whether the group has committed offsets.
func (l *log) committedUpTo(ends map[int32]int64) bool {
	l.t.Helper()
	offsets, err := l.admin.FetchOffsets(l.t.Context(), l.topic)
	for p, end := range ends {
		o, ok := offsets.Lookup(l.topic, p)
		if err != nil || offsets.Error() != nil || end > 0 && (!ok || o.At < end) {
			return false
		}
	}
	return true
}
