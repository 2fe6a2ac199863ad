package outrider_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin"
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

// Code of the program that ignores its context does not keep Run from returning, nor the next relay from the lanes; code that ends its goroutine has
// failed, and its message comes again.
func TestG13_CodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"listener", "publish", "health", "publish goexit", "health goexit"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			url := testenv.Postgres(t)
			kind := "publisher, topic: t"
			if where == "listener" {
				kind = "listeners"
			}
			cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
lease: 3s
drain_timeout: 100ms
sources: {app: {type: postgres, url: %q, poll: {max: 50ms}}}
destinations: {here: {type: %s}}
routes: {all: {from: app, to: here, middleware: [{poison: {}}, {retry: {attempts: 5, base: 1ms, max: 5ms}}, {timeout: 1h}]}}
`, url, kind))
			must(t, err)
			_, err = admin.Init(t.Context(), cfg)
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
				option := outrider.WithPublisher("here", &stubborn{never(strings.HasPrefix(where, "health")), never(strings.HasPrefix(where, "publish")), arrived})
				if where == "listener" {
					r, hang := listeners.New(), never(true)
					listeners.Listen(r, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
						hang()
						arrived <- e.ID()
						return nil
					})
					option = outrider.WithListeners("here", r)
				}
				relay, err := outrider.New(cfg, option, outrider.WithLogger(slog.New(slog.DiscardHandler)))
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
