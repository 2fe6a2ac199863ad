package outridertest

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// Route is the name of the kit's route, for options of a relay that name one, such as outrider.WithMiddleware.
const Route = "test"

// Names of the kit's source and destination.
const (
	source = "app"
	target = "recorder"
)

// Attempts is the number of attempts after which a failing event is dead. The pauses are a few milliseconds.
const Attempts = 3

// DefaultTimeout limits how long [Kit.Delivered] and the other methods wait before they fail the test.
const DefaultTimeout = 30 * time.Second

// Kit is an outbox with a running relay. Its methods may be called concurrently, on the test's goroutine or others.
type Kit struct {
	// DB is the test's database, which has an outbox table and whatever the test creates in it. Its transactions are begun with BEGIN IMMEDIATE.
	DB *sql.DB

	// Client publishes to the outbox table.
	Client *outbox.Client

	tb       testing.TB
	timeout  time.Duration
	cfg      *outrider.Config
	relay    *outrider.Outrider
	ended    chan struct{} // closed when the relay has ended, with err
	err      error
	recorder *recorder
}

// Option changes what [Start] starts.
type Option func(*settings)

type settings struct {
	timeout time.Duration
	to      func() (adapters.Destination, error)
	relay   []outrider.Option
}

// WithListeners delivers to listeners. An event counts as delivered when all of its listeners have succeeded.
func WithListeners(r *listeners.Registry) Option {
	return func(s *settings) { s.to = func() (adapters.Destination, error) { return r.Destination(0) } }
}

// WithDestination delivers to a destination of the test's own.
func WithDestination(d adapters.Destination) Option {
	return func(s *settings) { s.to = func() (adapters.Destination, error) { return d, nil } }
}

// WithRelay adds options of the relay, for example outrider.WithMiddleware(outridertest.Route, ...).
func WithRelay(opts ...outrider.Option) Option {
	return func(s *settings) { s.relay = append(s.relay, opts...) }
}

// WithTimeout sets the timeout of waiting. Default: [DefaultTimeout].
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// Start creates an outbox and starts a relay that delivers from it. Without an option messages are recorded and
// dropped. When the test ends, the relay is drained and everything is closed; a relay that does not end cleanly fails
// the test. Warnings of the relay are in the test's output.
func Start(tb testing.TB, opts ...Option) *Kit {
	tb.Helper()
	s := settings{timeout: DefaultTimeout, to: nowhere}
	for _, opt := range opts {
		opt(&s)
	}
	k := &Kit{tb: tb, timeout: s.timeout, ended: make(chan struct{})}
	dir := tb.TempDir()
	path := filepath.Join(dir, "app.db")
	to, err := s.to()
	k.must("the destination", err)
	k.recorder = &recorder{Destination: to, changed: make(chan struct{})}
	k.DB, err = sqlite.Open(path)
	k.must("the database", err)
	tb.Cleanup(func() { _ = k.DB.Close() })
	k.Client, err = outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	k.must("the client", err)

	k.cfg, err = outrider.NewConfig(outrider.Config{
		// The state has a file of its own, so that the relay's writes do not wait for transactions of the test.
		State:        config.State{URL: config.NewSecretURL(filepath.Join(dir, "state.db"))},
		Sources:      map[string]config.Source{source: &config.SQLite{Path: path, TableSource: config.TableSource{Poll: config.Poll{Max: config.Duration(5 * time.Millisecond)}}}},
		Destinations: map[string]config.Destination{target: &config.Publisher{Topic: target}},
		Routes: []config.Route{{Name: Route, From: source, Targets: []string{target}, Middleware: []config.Middleware{
			&config.Poison{}, &config.Retry{Attempts: Attempts, Base: config.Duration(time.Millisecond)}, &config.Timeout{},
		}}},
	})
	k.must("the configuration", err)
	_, err = operate.Init(tb.Context(), k.cfg)
	k.must("the tables", err)
	logger := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	k.relay, err = outrider.New(k.cfg, append([]outrider.Option{
		outrider.WithBatchDestination(target, k.recorder), outrider.WithLogger(logger),
	}, s.relay...)...)
	k.must("the relay", err)
	k.run()
	return k
}

// run runs the relay until the test ends, and returns when it delivers.
func (k *Kit) run() {
	k.tb.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(k.tb.Context())) // that of the test ends before it may drain
	go func() {
		defer close(k.ended)
		k.err = k.relay.Run(ctx)
	}()
	k.tb.Cleanup(func() {
		stop()
		<-k.ended
		if k.err != nil {
			k.tb.Errorf("outridertest: the relay ended with: %v", k.err)
		}
	})
	select {
	case <-k.relay.Ready():
	case <-k.ended:
		k.tb.Fatalf("outridertest: the relay did not start: %v", k.err)
	}
}

func (k *Kit) must(what string, err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Fatalf("outridertest: %s: %v", what, err)
	}
}
