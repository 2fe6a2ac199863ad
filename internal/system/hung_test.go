package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// stubborn is a publisher whose first call of one of its methods does not come back.
type stubborn struct {
	health, publish func()
	arrived         chan string
}

func (*stubborn) Name() string { return "here" }

func (p *stubborn) IsHealthy() bool {
	p.health()
	return true
}

func (p *stubborn) PublishBatch(_ context.Context, events []outbox.Envelope) error {
	p.publish()
	for _, e := range events {
		p.arrived <- e.ID()
	}
	return nil
}

// single is a publisher of Watermill's that takes one message after the other.
type single struct {
	publish func() error
	arrived chan string
}

func (p *single) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		if err := p.publish(); err != nil {
			return err
		}
		p.arrived <- msg.UUID
	}
	return nil
}

func (*single) Close() error { return nil }

// Code of the program that ignores its context does not keep Run from returning, nor the next relay from the lanes; code that ends its goroutine has
// failed, and its message comes again.
func TestG13_CodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"listener", "publish", "health", "middleware", "destination", "poison", "publish goexit", "health goexit"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			url := testenv.Postgres(t)
			kind, poison := "publisher, topic: t", "poison"
			switch {
			case where == "listener":
				kind = "listeners"
			case strings.HasPrefix(where, "poison"):
				poison = "{poison: {to: graveyard}}"
			}
			cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
lease: 3s
drain_timeout: 100ms
sources: {app: {type: postgres, url: %q, poll: {max: 50ms}}}
destinations: {here: {type: %s}, graveyard: {type: publisher, topic: dead}}
routes: {all: {from: app, to: here, middleware: [%s, {retry: {attempts: 5, base: 1ms, max: 5ms}}, {timeout: 1h}]}}
`, url, kind, poison))
			must(t, err)
			_, err = operate.Init(t.Context(), cfg)
			must(t, err)
			pool, err := pgxpool.New(t.Context(), url)
			must(t, err)
			t.Cleanup(pool.Close)
			client, err := outbox.NewClient(outbox.ClientConfig{})
			must(t, err)
			e, err := outbox.New("sold").JSON(1).Group("g").Build()
			must(t, err)

			hung, release, arrived := make(chan struct{}), make(chan struct{}), make(chan string, 10)
			var released sync.Once
			free := func() { released.Do(func() { close(release) }) }
			t.Cleanup(free)
			var calls atomic.Int32
			never := func(here bool) func() {
				return func() {
					switch {
					case !here || calls.Add(1) > 1:
					case strings.Contains(where, "goexit"):
						runtime.Goexit()
					default:
						close(hung)
						<-release
					}
				}
			}
			run := func() (stop func() error) {
				option, grave := outrider.WithPublisher("here", &stubborn{never(strings.HasPrefix(where, "health")), never(strings.HasPrefix(where, "publish")), arrived}), &single{func() error { return nil }, arrived}
				middleware := outrider.WithMiddleware("all")
				switch hang := never(true); {
				case strings.HasPrefix(where, "middleware"):
					middleware = outrider.WithMiddleware("all", func(next message.HandlerFunc) message.HandlerFunc {
						return func(msg *message.Message) ([]*message.Message, error) {
							hang()
							return next(msg)
						}
					})
				case where == "destination":
					option = outrider.WithDestination("here", &single{func() error { hang(); return nil }, arrived})
				case strings.HasPrefix(where, "poison"):
					option = outrider.WithDestination("here", &single{func() error { return outbox.Permanent(errors.New("not wanted")) }, arrived})
					grave.publish = func() error { hang(); return nil }
				case where == "listener":
					r := listeners.New()
					listeners.Listen(r, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
						hang()
						arrived <- e.ID()
						return nil
					})
					option = outrider.WithListeners("here", r)
				}
				relay, err := outrider.New(cfg, option, middleware, outrider.WithDestination("graveyard", grave), outrider.WithLogger(slog.New(slog.DiscardHandler)))
				must(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- relay.Run(ctx) }()
				<-relay.Ready()
				return func() error { cancel(); return <-ended }
			}
			stop := run()
			must(t, outbox.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error { return client.Publish(ctx, tx, e) }))
			if strings.Contains(where, "goexit") {
				if id := <-arrived; id != e.ID() {
					t.Errorf("%s arrived", id)
				}
				must(t, stop())
				return
			}
			<-hung
			if err := stop(); err == nil || !strings.Contains(err.Error(), "drain") {
				t.Errorf("Run returned %v, want that the drain was cut off", err)
			}
			cfg.DrainTimeout = config.Duration(time.Minute)
			stop = run()
			if id := <-arrived; id != e.ID() {
				t.Errorf("%s arrived", id)
			}
			must(t, stop())
		})
	}
}
