package router_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	wmkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Consumers that keep the order of a partition deliver one record after the other: beside BenchmarkOnePartitionThousandKeys they get as many
// records as they handle in some seconds.
const comparedRecords = 500

// received waits for the receiver of the benchmark, and counts down.
func received(left *atomic.Int64, done chan<- struct{}) {
	time.Sleep(10 * time.Millisecond)
	if left.Add(-1) == 0 {
		close(done)
	}
}

// compare measures a consumer from its start until the last record is handled.
func compare(b *testing.B, consume func(ctx context.Context, addrs []string, topic string, handle func()) error) {
	c := connectKafka(b)
	for b.Loop() {
		topic := c.topic(b, 1)
		c.produce(b, topic, 1000, 0, comparedRecords)
		var left atomic.Int64
		left.Store(comparedRecords)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(b.Context())
		var work sync.WaitGroup
		began := time.Now()
		work.Go(func() {
			if err := consume(ctx, c.addrs, topic, func() { received(&left, done) }); err != nil {
				b.Error(err)
			}
		})
		<-done
		b.ReportMetric(comparedRecords/time.Since(began).Seconds(), "messages/s")
		cancel()
		work.Wait()
	}
}

// A bare consumer of franz-go, which commits what it has handled.
func BenchmarkOnePartitionFranz(b *testing.B) {
	compare(b, func(ctx context.Context, addrs []string, topic string, handle func()) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
		if err != nil {
			return err
		}
		defer cl.CloseAllowingRebalance()
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				handle()
				cl.MarkCommitRecords(r)
			})
			cl.AllowRebalance()
		}
		return nil
	})
}

// The subscriber of watermill-kafka as it comes, with the offsets of a new group at the beginning.
func BenchmarkOnePartitionWatermill(b *testing.B) {
	compare(b, func(ctx context.Context, addrs []string, topic string, handle func()) error {
		settings := wmkafka.DefaultSaramaSubscriberConfig()
		settings.Consumer.Offsets.Initial = sarama.OffsetOldest
		sub, err := wmkafka.NewSubscriber(wmkafka.SubscriberConfig{Brokers: addrs, Unmarshaler: anyRecord{}, ConsumerGroup: topic, OverwriteSaramaConfig: settings}, nil)
		if err != nil {
			return err
		}
		messages, err := sub.Subscribe(ctx, topic)
		if err != nil {
			return err
		}
		for msg := range messages {
			handle()
			msg.Ack()
		}
		return sub.Close()
	})
}

// anyRecord takes records that no publisher of Watermill has written.
type anyRecord struct{}

func (anyRecord) Unmarshal(rec *sarama.ConsumerMessage) (*message.Message, error) {
	return message.NewMessage("", rec.Value), nil
}
