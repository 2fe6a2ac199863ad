package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmjs "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	wm "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// SubscriberConfig configures a [Subscriber]. Servers and Consumer are required.
type SubscriberConfig struct {
	Connection

	Consumer string        // durable consumer of the stream; it is created if there is none
	Subject  string        // of the stream that a consumer which is created gets; empty: all
	AckWait  time.Duration // after which a message without a verdict comes again. Default: 1 m
	Workers  int           // messages that wait for their verdict; more than one: in no order. Default: 1
}

// DefaultAckWait is the default of [SubscriberConfig].
const DefaultAckWait = time.Minute

// Subscriber reads streams by Watermill's own Subscriber, with a durable consumer: a message is acknowledged after its verdict.
type Subscriber struct {
	cfg     SubscriberConfig
	closing chan struct{}
	once    sync.Once
	work    sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c SubscriberConfig) WithDefaults() (SubscriberConfig, error) {
	c.AckWait = cmp.Or(c.AckWait, DefaultAckWait)
	c.Workers = max(c.Workers, 1)
	err := c.complete()
	if c.Consumer == "" {
		err = errors.Join(err, errors.New("consumer: none given"))
	}
	return c, err
}

// NewSubscriber returns a subscriber. It connects with the first [Subscriber.Subscribe].
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("nats source: %w", err)
	}
	return &Subscriber{cfg: cfg, closing: make(chan struct{})}, nil
}

// Subscribe takes the messages of a stream until ctx ends.
func (s *Subscriber) Subscribe(ctx context.Context, stream string) (<-chan *message.Message, error) {
	opts, err := s.cfg.options(longestDial)
	if err != nil {
		return nil, fmt.Errorf("nats source: %w", err)
	}
	conn, err := natsgo.Connect(strings.Join(s.cfg.Servers, ","), opts...)
	if err != nil {
		return nil, fmt.Errorf("nats source: %w", withHint(&away{s.cfg.Servers, err}))
	}
	g := &gate{stop: make(chan struct{}), ended: make(chan struct{})}
	sub, err := wmjs.NewSubscriber(wmjs.SubscriberConfig{Conn: conn, AckWaitTimeout: s.cfg.AckWait, NakDelay: wmjs.NewStaticDelay(nakDelay),
		ResourceInitializer: s.consumer, Unmarshaler: g, ConsumeOptions: []jetstream.PullConsumeOpt{jetstream.PullMaxMessages(1), jetstream.PullHeartbeat(heartbeat)},
		Logger: watermill.NewSlogLoggerWithLevelMapping(s.cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("nats source: %w", err)
	}
	out := make(chan *message.Message)
	var workers sync.WaitGroup
	for range s.cfg.Workers {
		theirs, err := sub.Subscribe(context.WithoutCancel(ctx), stream)
		if err != nil {
			g.close()
			close(g.ended)
			conn.Close()
			return nil, fmt.Errorf("nats source: stream %s: %w", stream, err)
		}
		workers.Go(func() { g.forward(ctx, s.closing, theirs, out) })
	}
	s.work.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.closing:
		}
		g.close()
		g.passing.Wait()
		if err := sub.Close(); err != nil {
			s.cfg.Logger.Debug("nats source", "error", err)
		}
		close(g.ended)
		workers.Wait()
		close(out)
		conn.Close()
	})
	return out, nil
}

// heartbeat is the pause between the server's heartbeats. The client sometimes does not ask for the next message, when one is answered
// before its request has returned: it asks again when two heartbeats are missing. The default would let messages wait for 30 s.
const heartbeat = 500 * time.Millisecond

// nakDelay is the pause before a message that was refused comes again.
const nakDelay = time.Second

// consumer finds the durable consumer of a stream, or creates it.
func (s *Subscriber) consumer(ctx context.Context, js jetstream.JetStream, stream string) (jetstream.Consumer, func(context.Context, watermill.LoggerAdapter), error) {
	c, err := js.Consumer(ctx, stream, s.cfg.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: s.cfg.Consumer, FilterSubject: s.cfg.Subject,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.cfg.AckWait, MaxAckPending: s.cfg.Workers})
	}
	return c, nil, err
}

// Check connects, and asks for the stream.
func (s *Subscriber) Check(ctx context.Context, stream string) error {
	l := &link{cfg: s.cfg.Connection, timeout: longestDial}
	defer l.close()
	js, _, err := l.get()
	if err != nil {
		return err
	}
	if _, err := js.Stream(ctx, stream); err != nil {
		return fmt.Errorf("nats source: stream %s: %w", stream, err)
	}
	return nil
}

// Close ends all subscriptions; messages without a verdict come again after the consumer's ack wait.
func (s *Subscriber) Close() error {
	s.once.Do(func() { close(s.closing) })
	s.work.Wait()
	return nil
}

// gate reads messages for Watermill's Subscriber, and holds back those that come when the subscription ends: the Subscriber would
// write them to a channel that it has closed, which panics.
type gate struct {
	stop, ended chan struct{}
	mu          sync.Mutex
	passing     sync.WaitGroup // messages on their way to the channel
}

// close holds back what comes from now on.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.stop)
}

// Unmarshal implements Watermill's jetstream.Unmarshaler. It returns no error, which the Subscriber does not survive.
func (g *gate) Unmarshal(msg jetstream.Msg) (*message.Message, error) {
	out := message.NewMessage(msg.Headers().Get(wm.WatermillUUIDHdr), msg.Data())
	for key, values := range msg.Headers() {
		if key != wm.WatermillUUIDHdr && !strings.HasPrefix(key, "Nats-") && len(values) > 0 {
			out.Metadata[key] = values[0]
		}
	}
	if out.UUID == "" {
		out.UUID = eventID(msg.Subject(), msg.Headers().Get(jetstream.MsgIDHeader))
	}
	if at, err := msg.Metadata(); out.UUID == "" && err == nil {
		out.UUID = fmt.Sprintf("%s-%d", at.Stream, at.Sequence.Stream)
	}
	if !g.pass() {
		<-g.ended
	}
	return out, nil
}

// pass lets a message on its way, or says that the subscription ends.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.stop:
		return false
	default:
		g.passing.Add(1)
		return true
	}
}

// forward passes messages on until the subscription ends, and refuses those that come then.
func (g *gate) forward(ctx context.Context, closing <-chan struct{}, from <-chan *message.Message, out chan<- *message.Message) {
	for msg := range from {
		g.passing.Done()
		select {
		case out <- msg:
		case <-ctx.Done():
			msg.Nack()
		case <-closing:
			msg.Nack()
		}
	}
}
