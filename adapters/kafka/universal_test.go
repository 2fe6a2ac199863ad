package kafka

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/outriderhq/outrider/internal/testenv"
)

// TestWatermillsUniversalSuite runs Watermill's own suite with a [Destination] of only the
// required fields as the Publisher, and the stock Subscriber.
func TestWatermillsUniversalSuite(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	prefix := newName(t) + "-"
	t.Cleanup(func() {
		topics, err := b.adm.ListTopics(context.Background())
		ours := slices.DeleteFunc(topics.Names(), func(topic string) bool { return !strings.HasPrefix(topic, prefix) })
		_, _ = b.adm.DeleteTopics(context.Background(), ours...) // the server is stopped in the end
		if err != nil {
			t.Error(err)
		}
	})
	withGroup := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		settings := kafka.DefaultSaramaSubscriberConfig()
		settings.Consumer.Offsets.Initial = sarama.OffsetOldest
		sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: b.addrs, OverwriteSaramaConfig: settings, ConsumerGroup: group,
			InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(Config{Brokers: b.addrs, Topic: "{{.Type}}"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the suite closes most of them
			_ = sub.Close()
			_ = d.Close()
		})
		return d, sub
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups:  true,
		GuaranteedOrder: true,
		Persistent:      true,
		ForceShort:      true,
		GenerateTopicFunc: func(c tests.TestContext) string {
			return prefix + c.TestID.String()
		},
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		return withGroup(t, t.Name()) // one for all of a test
	}, withGroup)
}
