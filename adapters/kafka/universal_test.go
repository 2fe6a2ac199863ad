package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/outriderhq/outrider/internal/testenv"
)

// TestWatermillsUniversalSuite runs Watermill's own suite with a [Destination] of only the
// required fields as the Publisher, and watermill-kafka's Subscriber.
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
		sub := &subscribers{brokers: b.addrs, group: group}
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

// subscribers are watermill-kafka's Subscribers, one for each topic with a consumer group of its own. In one group, whoever joins has all
// others join again, which takes a few times as long as the heartbeats of three seconds: the suite waits for 15 seconds.
type subscribers struct {
	brokers []string
	group   string

	mu      sync.Mutex
	byTopic map[string]*kafka.Subscriber
}

func (s *subscribers) of(topic string) (*kafka.Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.byTopic[topic]; sub != nil {
		return sub, nil
	}
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: s.brokers, OverwriteSaramaConfig: settings, ConsumerGroup: s.group + " " + topic,
		InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}}, nil)
	if err != nil {
		return nil, err
	}
	if s.byTopic == nil {
		s.byTopic = map[string]*kafka.Subscriber{}
	}
	s.byTopic[topic] = sub
	return sub, nil
}

// Subscribe implements [message.Subscriber].
func (s *subscribers) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	sub, err := s.of(topic)
	if err != nil {
		return nil, err
	}
	return sub.Subscribe(ctx, topic)
}

// SubscribeInitialize implements [message.SubscribeInitializer].
func (s *subscribers) SubscribeInitialize(topic string) error {
	sub, err := s.of(topic)
	if err != nil {
		return err
	}
	return sub.SubscribeInitialize(topic)
}

// Close implements [message.Subscriber].
func (s *subscribers) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, sub := range s.byTopic {
		errs = append(errs, sub.Close())
	}
	return errors.Join(errs...)
}
