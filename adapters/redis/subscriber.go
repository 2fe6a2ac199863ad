package redis

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// SubscriberConfig configures a [Subscriber].
type SubscriberConfig struct {
	Servers

	// Group is the consumer group, which is created where there is none. Required.
	Group string

	// Fresh has a new group begin with what is added after it was created, instead of with the first entry.
	Fresh bool

	// Logger takes what no caller hears of. Default: slog.Default().
	Logger *slog.Logger
}

// Subscriber reads a stream by watermill-redisstream's Subscriber. It is a Watermill message.Subscriber, for one process at a time.
//
// Each subscription is a consumer of its own, and begins with what former ones have received and not acknowledged, in order. It ends with the
// first error of a read, so that the next one finds what an answer that was lost has left.
type Subscriber struct {
	cfg  SubscriberConfig
	subs sync.WaitGroup
	stop context.CancelFunc
	ctx  context.Context //nolint:containedctx // ends all subscriptions
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber, or an error that says what is wrong with the configuration. It does not connect.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	err := cfg.check()
	if cfg.Group == "" {
		err = errors.Join(err, errors.New("no consumer group"))
	}
	if err != nil {
		return nil, fmt.Errorf("redis source: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Subscriber{cfg: cfg}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

const (
	// unacked is for how long an entry has to be without an answer before a new subscription takes it: none at all, since the one before has
	// ended. Zero would be the library's default.
	unacked = -time.Nanosecond

	// block is how long a read waits for entries at the server, and lastRead how long a new subscription waits for the last read of the one
	// before: an entry that this got after the new one has begun would come behind later ones.
	block, lastRead = 100 * time.Millisecond, 150 * time.Millisecond
)

// connections of a subscription: one waits for entries, one takes what former consumers left, one acknowledges.
const connections = 4

// Subscribe reads a stream until ctx ends, or a read fails.
func (s *Subscriber) Subscribe(ctx context.Context, stream string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	consumer, first := watermill.NewUUID(), "0"
	if s.cfg.Fresh {
		first = "$"
	}
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: s.cfg.open(connections), Unmarshaller: entry{}, Consumer: consumer, ConsumerGroup: s.cfg.Group, OldestId: first,
		BlockTime: block, MaxIdleTime: unacked, ClaimInterval: time.Second, NackResendSleep: 100 * time.Millisecond, DisableIndefiniteInitialBlock: true,
		ShouldClaimPendingMessage: func(p redis.XPendingExt) bool { return p.Consumer != consumer },
		ShouldStopOnReadErrors:    func(error) bool { return true },
	}, logger{watermill.NewSlogLogger(s.cfg.Logger), ctx})
	var in <-chan *message.Message
	if err == nil {
		select {
		case <-time.After(lastRead):
		case <-ctx.Done():
		}
		in, err = sub.Subscribe(ctx, stream)
	}
	if err != nil {
		cancel()
		stop()
		if sub != nil {
			_ = sub.Close() // its client with it
		}
		return nil, fmt.Errorf("redis source: stream %q: %w", stream, err)
	}
	out := make(chan *message.Message)
	s.subs.Go(func() {
		defer close(out)
		defer func() { _ = sub.Close() }() // its client with it
		defer cancel()
		defer stop()
		for msg := range in {
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
		}
	})
	return out, nil
}

// Check reports whether the server answers.
func (s *Subscriber) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c := s.cfg.open(1)
	defer func() { _ = c.Close() }() // nothing is in flight
	if err := c.Ping(ctx).Err(); err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("redis source: %v cannot be used: %w; check the addresses, TLS, the login and the server", s.cfg.Addresses, err)
	}
	return nil
}

// Close ends all subscriptions.
func (s *Subscriber) Close() error {
	s.stop()
	s.subs.Wait()
	return nil
}

// entry reads entries. One that is not Watermill's, which would end the subscription for ever, is read as of the format raw.
type entry struct{}

// Unmarshal implements [redisstream.Unmarshaller].
func (entry) Unmarshal(values map[string]any) (*message.Message, error) {
	if msg, err := (redisstream.DefaultMarshallerUnmarshaller{}).Unmarshal(values); err == nil {
		return msg, nil
	}
	payload, _ := values[fieldPayload].(string)
	msg := message.NewMessage("", []byte(payload))
	for k, v := range values {
		if text, ok := v.(string); ok && k != fieldPayload {
			msg.Metadata[k] = text
		}
	}
	msg.UUID = msg.Metadata[format.RawID]
	if msg.UUID == "" {
		msg.UUID = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, values)))[:32] // maps print sorted: the same whenever it is read
	}
	if typ, ok := msg.Metadata[format.RawType]; ok && msg.Metadata[outbox.MetaType] == "" {
		msg.Metadata[outbox.MetaType] = typ
		delete(msg.Metadata, format.RawType)
	}
	delete(msg.Metadata, format.RawID)
	return msg, nil
}

// logger takes what the library says of a subscription. That its connections are closed at the end is no error.
type logger struct {
	watermill.LoggerAdapter
	lasting context.Context //nolint:containedctx // the subscription's
}

func (l logger) Error(text string, err error, fields watermill.LogFields) {
	if l.lasting.Err() == nil {
		l.LoggerAdapter.Error(text, err, fields)
	}
}

func (l logger) Info(text string, fields watermill.LogFields) { l.Debug(text, fields) }
