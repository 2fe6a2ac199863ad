package faults_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// partitions of every topic: groups are spread over them.
const partitions = 4

// newTopic creates a topic that no other test uses. Options are of the test's
// own clients, for a broker behind a proxy.
func newTopic(t *testing.T, brokers []string, options ...kgo.Opt) string {
	t.Helper()
	name := topicName()
	createTopic(t, brokers, name, options...)
	return name
}

func topicName() string { return "faults-" + strings.ToLower(ulid.Make().String()) }

// createTopic creates a topic and deletes it after the test.
func createTopic(t *testing.T, brokers []string, name string, options ...kgo.Opt) {
	t.Helper()
	options = append(options, kgo.SeedBrokers(brokers...))
	client, err := kgo.NewClient(options...)
	must(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, name)
	must(t, err)
	t.Cleanup(func() {
		client, err := kgo.NewClient(options...)
		must(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err = kadm.NewClient(client).DeleteTopic(ctx, name)
		must(t, err)
	})
}

// consumer reads a topic from its beginning.
type consumer struct {
	t      *testing.T
	client *kgo.Client
	topic  string
	done   chan struct{}

	mu       sync.Mutex
	streams  [][]check.Delivery // by partition
	next     []int64            // offsets
	distinct map[string]struct{}
}

// consume reads a topic until the test ends.
func consume(t *testing.T, brokers []string, topic string, options ...kgo.Opt) *consumer {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	must(t, err)
	c := &consumer{
		t: t, client: client, topic: topic, done: make(chan struct{}), streams: make([][]check.Delivery, partitions),
		next: make([]int64, partitions), distinct: map[string]struct{}{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	go c.run(ctx)
	t.Cleanup(func() {
		cancel()
		<-c.done
		client.Close()
	})
	return c
}

// committed reads what consumers with isolation.level=read_committed see.
func committed(t *testing.T, brokers []string, topic string) *consumer {
	t.Helper()
	return consume(t, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		c.mu.Lock()
		fetches.EachRecord(c.take)
		c.mu.Unlock()
	}
}

// take records one arrival, with the wire format of watermill-kafka.
func (c *consumer) take(r *kgo.Record) {
	c.next[r.Partition] = r.Offset + 1
	if r.Attrs.IsControl() { // the end of a transaction, if they are asked for
		return
	}
	d := check.Delivery{Group: string(r.Key)}
	for _, h := range r.Headers {
		if h.Key == kafka.UUIDHeaderKey {
			d.ID = string(h.Value)
		}
	}
	c.streams[r.Partition] = append(c.streams[r.Partition], d)
	c.distinct[d.ID] = struct{}{}
}

// arrived counts the different messages that came so far.
func (c *consumer) arrived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.distinct)
}

// all waits until everything that is in the topic now was read, and returns it.
func (c *consumer) all() [][]check.Delivery {
	c.t.Helper()
	ends, err := kadm.NewClient(c.client).ListEndOffsets(c.t.Context(), c.topic)
	must(c.t, err)
	must(c.t, ends.Error())
	until(c.t, "the whole topic was read", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for p, next := range c.next {
			if end, ok := ends.Lookup(c.topic, int32(p)); !ok || next < end.Offset {
				return false
			}
		}
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams) // more may come: what is appended is not seen
}
