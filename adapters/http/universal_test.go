package http

import (
	"context"
	"sync"
	"testing"
	"time"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/outriderhq/outrider/internal/testenv"
)

// resender is a client of a [Subscriber] as it has to be: it keeps what was published and sends it by the stock Publisher, in order and
// again until it is taken.
type resender struct {
	ctx  context.Context
	addr string
	pub  *wmhttp.Publisher

	mu     sync.Mutex
	topics map[string]chan *message.Message
	work   sync.WaitGroup
}

// Publish implements message.Publisher.
func (r *resender) Publish(topic string, msgs ...*message.Message) error {
	r.mu.Lock()
	queue := r.topics[topic]
	if queue == nil {
		queue = make(chan *message.Message, 1000) // more than a test publishes
		r.topics[topic] = queue
		r.work.Go(func() { r.send(topic, queue) })
	}
	r.mu.Unlock()
	for _, msg := range msgs {
		queue <- msg
	}
	return nil
}

func (r *resender) send(topic string, queue <-chan *message.Message) {
	for {
		select {
		case msg := <-queue:
			for r.pub.Publish("http://"+r.addr+"/"+topic, msg) != nil {
				select {
				case <-time.After(time.Millisecond):
				case <-r.ctx.Done():
					return
				}
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// Close implements message.Publisher. The suite closes a Publisher whose messages another one's Subscriber is to receive.
func (r *resender) Close() error { return nil }

// TestWatermillsUniversalSuite runs the tests of Watermill's own suite with a [Subscriber] and the stock Publisher. TestConcurrentClose
// and those of consumer groups are left out: they want several subscriptions to one topic at a time, and a path has one.
func TestWatermillsUniversalSuite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, tests.TestContext, tests.PubSubConstructor){
		"PublishSubscribe":                  tests.TestPublishSubscribe,
		"ConcurrentSubscribe":               tests.TestConcurrentSubscribe,
		"ConcurrentSubscribeMultipleTopics": tests.TestConcurrentSubscribeMultipleTopics,
		"ResendOnError":                     tests.TestResendOnError,
		"NoAck":                             tests.TestNoAck,
		"ContinueAfterSubscribeClose":       tests.TestContinueAfterSubscribeClose,
		"ContinueAfterErrors":               tests.TestContinueAfterErrors,
		"PublishSubscribeInOrder":           tests.TestPublishSubscribeInOrder,
		"PublisherClose":                    tests.TestPublisherClose,
		"Topic":                             tests.TestTopic,
		"MessageCtx":                        tests.TestMessageCtx,
		"SubscribeCtx":                      tests.TestSubscribeCtx,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			client := &resender{ctx: ctx, addr: testenv.FreeAddress(t), pub: pub, topics: map[string]chan *message.Message{}}
			t.Cleanup(func() {
				cancel()
				client.work.Wait()
			})
			test(t, tests.TestContext{TestID: tests.NewTestID(), Features: tests.Features{
				GuaranteedOrder: true, Persistent: true, RequireSingleInstance: true, ForceShort: true,
			}}, func(t *testing.T) (message.Publisher, message.Subscriber) {
				t.Helper()
				sub, err := NewSubscriber(SubscriberConfig{Listen: client.addr})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = sub.Close() }) // the suite closes most of them
				return client, sub
			})
		})
	}
}
