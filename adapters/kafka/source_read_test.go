package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// What was read ahead of partitions that another instance has now is forgotten.
func TestReadAheadOfPartitionsThatWereHandedOver(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	const partitions = 4
	topic := b.topic(t, partitions, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for p := range int32(partitions) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	join := func() *Source {
		t.Helper()
		s, err := NewSource(t.Context(), SourceConfig{Brokers: b.addrs, Topic: topic, Group: topic, Session: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		ignore := func([]int) {}
		if err := s.Join(adapters.GroupCalls{Changed: func() {}, Revoked: ignore, Lost: ignore}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := join()
	await(t, "the first has all partitions", func() bool { return len(owned(first)) == partitions })
	reads := make([]adapters.Read, partitions)
	for p := range reads {
		reads[p] = adapters.Read{Slot: p, From: adapters.Cursor{Position: -1}, Limit: 10}
	}
	rows := map[int]bool{}
	await(t, "the first has read all partitions", func() bool {
		_, err := first.Fetch(t.Context(), reads, func(_ int, row *adapters.Row) bool { rows[row.Slot] = true; return true })
		return err == nil && len(rows) == partitions
	})
	second := join()
	await(t, "both have partitions", func() bool { return len(owned(first)) == 2 && len(owned(second)) == 2 })
	await(t, "the first has forgotten the others", func() bool { return slices.Equal(owned(first), readAheadOf(first)) })
}

func owned(s *Source) []int {
	slots, _ := s.Owned()
	slices.Sort(slots)
	return slots
}

// readAheadOf are the partitions that a source has in memory.
func readAheadOf(s *Source) (slots []int) {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	for p := range s.reader.parts {
		slots = append(slots, p)
	}
	slices.Sort(slots)
	return slots
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for over := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatal("not within a minute: " + what)
		}
	}
}
