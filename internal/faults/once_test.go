package faults_test

import (
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

func toKafkaOnce(brokers []string, topic string) string {
	return toKafka(brokers, topic) + ", exclusive: true, exactly_once: true, timeout: 5s, transactional_id: " + topic
}

// each counts how often each message arrived.
func each(to destination) map[string]int {
	times := map[string]int{}
	for _, stream := range to.all() {
		for _, d := range stream {
			times[d.ID]++
		}
	}
	return times
}

// With exactly_once instances that read a table are killed and frozen, and each row is in the topic once. After a seek to the beginning each is
// there once more.
func TestG1_G2_ATableArrivesInKafkaExactlyOnce(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := newTopic(t, brokers)
	to := committed(t, brokers, topic)
	f := newFleet(t, shortLease, toKafkaOnce(brokers, topic))
	for range testenv.Brief(2, 3) {
		f.join()
	}
	w := write(t, f.pool, false)
	kills, freezes := f.killAndFreeze(testenv.Brief(2, 4), 4, 300, to)
	w.stop()
	rows := f.rows()
	f.members[0].until("delivered everything", func() bool { return to.arrived() >= len(rows) })
	report := check.Compare(rows, to.all()...)
	t.Logf("%d kills and %d freezes between a table and Kafka: %v", kills, freezes, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want each row once: %v", report)
	}
	command(t, "seek", "orders0", "--to", "beginning", "--yes", "-c", f.members[0].config)
	f.members[0].until("delivered everything again", func() bool {
		times := each(to)
		for _, r := range rows {
			if times[r.ID] < 2 {
				return false
			}
		}
		return true
	})
	for _, r := range f.members {
		r.stop()
	}
	for id, n := range each(to) {
		if n != 2 {
			t.Errorf("after a seek to the beginning message %s has arrived %d times, want twice", id, n)
		}
	}
}

// From topic to topic, members of a consumer group are killed and frozen, and each record arrives once.
func TestG1_G2_G3_ATopicArrivesInKafkaExactlyOnce(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	l := newLog(t, brokers)
	topic := newTopic(t, brokers)
	to := committed(t, brokers, topic)
	f := newGroup(t, l, toKafkaOnce(brokers, topic))
	for range testenv.Brief(2, 3) {
		f.join()
	}
	stop := l.keepWriting(1000)
	kills, freezes := f.killAndFreeze(testenv.Brief(2, 4), 4, 300, to)
	stop()
	report := f.endGroup(l.rows(), to)
	t.Logf("%d kills and %d freezes between two topics: %v", kills, freezes, report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want each record once: %v", report)
	}
}
