package middleware_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// onLane returns a context as a lane gives to the message of an attempt.
func onLane(number int) context.Context {
	return onLaneOf(context.Background(), number)
}

func onLaneOf(parent context.Context, number int) context.Context {
	return context.WithValue(parent, lanectx.Attempt,
		&outbox.Attempt{Route: "orders", Lane: "orders/07", Number: number})
}

func newMessage(ctx context.Context) *message.Message {
	return message.NewMessageWithContext(ctx, "id-1", []byte(`{"n":1}`))
}

// chain wraps the handler in the middleware, the first outermost.
func chain(h message.HandlerFunc, mws ...message.HandlerMiddleware) message.HandlerFunc {
	for _, mw := range slices.Backward(mws) {
		h = mw(h)
	}
	return h
}

// returning is a handler that returns the errors in turn, the last forever.
func returning(errs ...error) (h message.HandlerFunc, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return func(*message.Message) ([]*message.Message, error) {
		return nil, errs[min(int(calls.Add(1)), len(errs))-1]
	}, calls
}

// explode is a handler that panics.
func explode(*message.Message) ([]*message.Message, error) {
	panic("boom")
}

// bubble is a Watermill router over a gochannel, inside a synctest bubble. The
// handler consumes topic "in" and what it returns is published to topic "out".
type bubble struct {
	t      *testing.T
	pubsub *gochannel.GoChannel
	router *message.Router
	cancel context.CancelFunc
	ended  chan error
}

func startRouter(t *testing.T, h message.HandlerFunc, mws ...message.HandlerMiddleware) *bubble {
	t.Helper()
	logger := watermill.NopLogger{}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, logger)
	if err != nil {
		t.Fatal(err)
	}
	b := &bubble{
		t:      t,
		pubsub: gochannel.NewGoChannel(gochannel.Config{Persistent: true}, logger),
		router: router,
		ended:  make(chan error, 1),
	}
	router.AddHandler("handler", "in", b.pubsub, "out", b.pubsub, h).AddMiddleware(mws...)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- router.Run(ctx) }()
	<-router.Running()
	return b
}

func (b *bubble) publish(msg *message.Message) {
	b.t.Helper()
	if err := b.pubsub.Publish("in", msg); err != nil {
		b.t.Fatal(err)
	}
}

// stop shuts the router down, as a program would at its end.
func (b *bubble) stop() {
	b.t.Helper()
	b.cancel()
	if err := <-b.ended; err != nil {
		b.t.Errorf("router: %v", err)
	}
	if err := b.pubsub.Close(); err != nil {
		b.t.Error(err)
	}
	synctest.Wait()
}

// recorder is a Publisher that keeps what it gets. It fails if told to, or
// if a message's context has ended.
type recorder struct {
	err error

	mu       sync.Mutex
	topics   []string
	messages []*message.Message
}

func (r *recorder) Publish(topic string, msgs ...*message.Message) error {
	if r.err != nil {
		return r.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range msgs {
		if err := msg.Context().Err(); err != nil {
			return err
		}
		r.topics = append(r.topics, topic)
		r.messages = append(r.messages, msg)
	}
	return nil
}

// published returns what was published so far.
func (r *recorder) published() []*message.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

func (r *recorder) Close() error { return nil }

// wantVerdict compares what a lane would conclude from the error.
func wantVerdict(t *testing.T, err error, want outbox.Outcome) outbox.Verdict {
	t.Helper()
	v := outbox.VerdictOf(err)
	if v.Outcome != want {
		t.Fatalf("verdict %v of error %v, want %v", v.Outcome, err, want)
	}
	return v
}

// wantInvalid compares the text of a validation error; "" is none.
func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
