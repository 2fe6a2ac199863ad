package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeLimit limits how long a consumer waits for the next records.
const consumeLimit = time.Minute

// consumer returns a client that reads all partitions of the topic from the
// start.
func (s *Servers) consumer(ctx context.Context, topic string) (*kgo.Client, error) {
	ends, _, err := s.EndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	from := map[int32]kgo.Offset{}
	for p := range ends {
		from[p] = kgo.NewOffset().AtStart()
	}
	return kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.DisableClientMetrics(),
		kgo.FetchMaxWait(100*time.Millisecond), // closing waits for the fetch that is in flight
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
}

// consume gives all records of the topic to the checker.
func (s *Servers) consume(ctx context.Context, topic string, c *Checker) error {
	_, records, err := s.EndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	cl, err := s.consumer(ctx, topic)
	if err != nil {
		return err
	}
	defer cl.Close()
	for c.tally.Records < records {
		before := c.tally.Records
		if err := take(ctx, cl, c); err != nil {
			return fmt.Errorf("read topic %s after %d of %d records: %w", topic, before, records, err)
		}
	}
	return nil
}

// take waits for records and gives them to the checker.
func take(ctx context.Context, cl *kgo.Client, c *Checker) error {
	ctx, cancel := context.WithTimeout(ctx, consumeLimit)
	defer cancel()
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	fetches.EachRecord(func(r *kgo.Record) { c.arrived(r.Partition, r.Key, r.Value) })
	return nil
}
