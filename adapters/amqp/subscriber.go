package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"
)

// Subscriber takes the messages of a queue by watermill-amqp's Subscriber, one at a time: the next one comes when the broker has the ack. It
// declares no queue. A message that was given back, or whose ack did not arrive, comes again before the others. It is a Watermill
// message.Subscriber, without a connection as long as there is no subscription.
type Subscriber struct {
	url string
	tls *tls.Config
	log *slog.Logger
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber of a broker's queues; certificates may be nil.
func NewSubscriber(url string, certificates *tls.Config, log *slog.Logger) *Subscriber {
	return &Subscriber{url, certificates, log}
}

// reconnect is how soon a connection is made again.
var reconnect = watermillamqp.ReconnectConfig{BackoffInitialInterval: 100 * time.Millisecond, BackoffRandomizationFactor: 0.5, BackoffMultiplier: 2, BackoffMaxInterval: 5 * time.Second}

// Subscribe connects, and takes messages of a queue until ctx ends.
func (s *Subscriber) Subscribe(ctx context.Context, queue string) (<-chan *message.Message, error) {
	cfg := watermillamqp.NewDurableQueueConfig(s.url)
	cfg.Connection.AmqpConfig = &rabbit.Config{Heartbeat: heartbeat, TLSClientConfig: s.tls.Clone(), Properties: properties()}
	cfg.Connection.Reconnect = &reconnect
	cfg.Marshaler, cfg.TopologyBuilder = marshaler{}, &passive{}
	sub, err := watermillamqp.NewSubscriber(cfg, errorLogger{log: s.log})
	if err != nil {
		return nil, unreachable(err)
	}
	msgs, err := sub.Subscribe(ctx, queue)
	if err != nil {
		return nil, errors.Join(subscribeError(queue, err), sub.Close())
	}
	context.AfterFunc(ctx, func() { _ = sub.Close() }) // it ended with its connection
	return msgs, nil
}

// Check connects, and returns an error unless the queue is there.
func (s *Subscriber) Check(ctx context.Context, queue string) error {
	l, err := dial(ctx, &Config{URL: s.url, TLS: s.tls})
	if err != nil {
		return unreachable(err)
	}
	defer l.kill()
	defer context.AfterFunc(ctx, l.kill)()
	ok, err := l.has(func(ch *rabbit.Channel) error { return passiveQueue(ch, queue) })
	if err == nil && !ok {
		err = subscribeError(queue, errors.New("it does not exist"))
	}
	return err
}

// Close implements message.Subscriber: subscriptions end with their contexts.
func (s *Subscriber) Close() error { return nil }

func subscribeError(queue string, err error) error {
	return fmt.Errorf("amqp: queue %q cannot be read: %w; create it, and grant the user read on it", queue, err)
}

// passive only asks whether the queue exists: declaring it again as a classic one would fail for a quorum queue.
type passive struct {
	watermillamqp.DefaultTopologyBuilder
}

// BuildTopology implements watermill-amqp's TopologyBuilder.
func (*passive) BuildTopology(ch *rabbit.Channel, p watermillamqp.BuildTopologyParams, _ watermillamqp.Config, _ watermill.LoggerAdapter) error {
	return passiveQueue(ch, p.QueueName)
}

// marshaler is watermill-amqp's, which refuses headers that are no texts: a broker adds such to what it delivers again (x-delivery-count), and
// other publishers do. A message without watermill-amqp's header has its message id as the event id.
type marshaler struct{ watermillamqp.DefaultMarshaler }

// Unmarshal implements watermill-amqp's Marshaler.
func (m marshaler) Unmarshal(d rabbit.Delivery) (*message.Message, error) {
	if d.Acknowledger == nil {
		return nil, errors.New("the channel has ended") // the client has closed it; there is no message
	}
	headers := make(rabbit.Table, len(d.Headers)+1)
	for k, v := range d.Headers {
		text, ok := v.(string)
		if !ok {
			text = fmt.Sprint(v)
		}
		headers[k] = text
	}
	id, _ := headers[watermillID].(string)
	headers[watermillID] = cmp.Or(id, d.MessageId)
	d.Headers = headers
	return m.DefaultMarshaler.Unmarshal(d)
}

// errorLogger logs errors only.
type errorLogger struct {
	watermill.NopLogger
	log *slog.Logger
}

// Error implements watermill's LoggerAdapter.
func (l errorLogger) Error(msg string, err error, _ watermill.LogFields) {
	l.log.Warn("watermill-amqp: "+msg, "error", err)
}

// With implements watermill's LoggerAdapter.
func (l errorLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }
