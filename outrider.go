package outrider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/watermill"
	"github.com/outriderhq/outrider/admin"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// Config is the typed configuration; package config documents its fields.
type Config = config.Config

// LoadConfig reads and checks a configuration file. Variables come from the
// process's environment. The error lists everything that is wrong with the file,
// with line, column and what to do.
func LoadConfig(path string) (*Config, error) { return config.Load(path, os.LookupEnv) }

// LoadStateConfig is [LoadConfig] for programs that only look after the state,
// with an [Operator] or [Tail]: errors in the sections destinations and admin,
// such as a secret that only the relay's environment has, do not count. [New]
// refuses a configuration that has such errors.
func LoadStateConfig(path string) (*Config, error) { return config.LoadState(path, os.LookupEnv) }

// ParseConfig is [LoadConfig] for text in memory; name stands for the file in
// errors.
func ParseConfig(name string, text []byte) (*Config, error) {
	return config.Parse(name, text, os.LookupEnv)
}

// Option changes how a relay is built.
type Option func(*options)

type options struct {
	middleware   map[string][]message.HandlerMiddleware
	destinations map[string]makeDestination
	subscribers  map[string]message.Subscriber
	pools        map[string]*pgxpool.Config // by source
	statePool    *pgxpool.Config            // nil: none was given
	logger       *slog.Logger
	instance     string
	registerer   prometheus.Registerer // nil: that of the admin server
	tracing      trace.TracerProvider  // nil: what the environment says
	memories     *memories             // of dedupe middleware
	unusable     []error               // why options cannot be used
}

// require notes an option that was given nothing where it needs something.
func (o *options) require(option string, value any) {
	if v := reflect.ValueOf(value); !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil() {
		o.unusable = append(o.unusable, fmt.Errorf("%s: it was given nil: see whether an error was overlooked where the value is made", option))
	}
}

// makeDestination finishes a destination with what the configuration says of it.
type makeDestination func(*config.Publisher) (adapters.Destination, error)

// WithMiddleware adds middleware to a route, outermost first, inside of what the
// configuration lists for it: inside of retry, so that their failures are
// retried, and inside of the timeout. Any Watermill middleware works. A route
// that lists `middleware: []` has only what is given here.
func WithMiddleware(route string, mw ...message.HandlerMiddleware) Option {
	return func(o *options) {
		for i, m := range mw {
			o.require(fmt.Sprintf("WithMiddleware(%q), middleware %d", route, i+1), m)
		}
		o.middleware[route] = append(o.middleware[route], mw...)
	}
}

// WithDestination supplies a destination that the configuration declares as
// `type: publisher`: a Watermill publisher, to which messages go one at a time
// per group, to the configured topic. The relay closes it. A publisher that
// panics fails the attempt, like one that returns an error.
func WithDestination(name string, p message.Publisher) Option {
	return func(o *options) {
		o.require(fmt.Sprintf("WithDestination(%q)", name), p)
		o.destinations[name] = func(d *config.Publisher) (adapters.Destination, error) {
			return watermill.New(p, watermill.Config{Topic: string(d.Topic), Logger: o.logger})
		}
	}
}

// WithBatchDestination is [WithDestination] for a destination of Outrider's own
// kind, which takes batches and declares how they are ordered.
func WithBatchDestination(name string, d adapters.Destination) Option {
	return func(o *options) {
		o.require(fmt.Sprintf("WithBatchDestination(%q)", name), d)
		o.destinations[name] = func(*config.Publisher) (adapters.Destination, error) { return d, nil }
	}
}

// WithSource supplies a source that the configuration declares as
// `type: subscriber`. Progress is the subscriber's own: a message is acked when
// it was delivered, skipped or durably parked.
func WithSource(name string, s message.Subscriber) Option {
	return func(o *options) {
		o.require(fmt.Sprintf("WithSource(%q)", name), s)
		o.subscribers[name] = s
	}
}

// WithLogger sets the logger. Default, also for nil: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithInstance names this process among others on the same state store.
// Default: the host's name and a unique id.
func WithInstance(name string) Option { return func(o *options) { o.instance = name } }

// WithRegisterer sets where the metrics middleware, and the breaker's metrics,
// are registered. Default: the admin server's /metrics. Several relays may share
// one.
func WithRegisterer(r prometheus.Registerer) Option {
	return func(o *options) { o.registerer = r }
}

// WithTracerProvider sets what makes the spans of the tracing middleware. The
// relay does not shut it down. Default: an exporter to where OpenTelemetry's
// environment variables say, or none.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *options) { o.tracing = p }
}

// Outrider is a relay. Make one with [New] and run it once.
type Outrider struct {
	cfg     *Config // what it began with
	options options
	log     *slog.Logger
	admin   *admin.Server
	shift   atomic.Pointer[shift] // the latest
	begun   atomic.Bool           // Run was called
	state   atomic.Int32          // a phase
	ready   chan struct{}
	readyMu sync.Once

	changes   chan *shift   // shifts that are to take over
	ended     chan struct{} // closed when Run has returned
	reloading sync.Mutex    // held by a Reload
}

// phase is where a relay is in its life, as /readyz tells it.
type phase int32

const (
	starting phase = iota
	running
	draining
	changing
)

// New checks that the options fit the configuration. Nothing is connected yet.
func New(cfg *Config, opts ...Option) (*Outrider, error) {
	if cfg.Partial {
		return nil, errors.New("the configuration was loaded for its state only, and its destinations have errors: load it with LoadConfig")
	}
	o := optionsOf(opts)
	if err := o.check(cfg); err != nil {
		return nil, err
	}
	return &Outrider{cfg: cfg, options: o, log: o.logger, ready: make(chan struct{}),
		changes: make(chan *shift), ended: make(chan struct{})}, nil
}

func optionsOf(opts []Option) options {
	o := options{
		middleware:   map[string][]message.HandlerMiddleware{},
		destinations: map[string]makeDestination{},
		subscribers:  map[string]message.Subscriber{},
		pools:        map[string]*pgxpool.Config{},
		logger:       slog.Default(),
		memories:     &memories{},
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.logger == nil {
		o.logger = slog.Default()
	}
	o.logger = slog.New(cutTexts{o.logger.Handler()})
	return o
}

// check compares the options with the configuration.
func (o *options) check(cfg *Config) error {
	errs := slices.Clone(o.unusable)
	routes := map[string]bool{}
	for _, r := range cfg.Routes {
		routes[r.Name] = true
	}
	for name := range o.middleware {
		if !routes[name] {
			errs = append(errs, fmt.Errorf("WithMiddleware(%q): the configuration has no such route", name))
		}
	}
	for name := range o.destinations {
		if d, ok := cfg.Destinations[name].(*config.Publisher); !ok || d == nil {
			errs = append(errs, fmt.Errorf("WithDestination(%q): the configuration has no destination of this name with type: publisher", name))
		}
	}
	for name := range o.subscribers {
		if s, ok := cfg.Sources[name].(*config.Subscriber); !ok || s == nil {
			errs = append(errs, fmt.Errorf("WithSource(%q): the configuration has no source of this name with type: subscriber", name))
		}
	}
	errs = append(errs, o.checkPools(cfg)...)
	for name, d := range cfg.Destinations {
		if _, ok := d.(*config.Publisher); ok && o.destinations[name] == nil {
			errs = append(errs, fmt.Errorf("destination %q has type publisher: give it with outrider.WithDestination(%q, ...)", name, name))
		}
	}
	for name, s := range cfg.Sources {
		if _, ok := s.(*config.Subscriber); ok && o.subscribers[name] == nil {
			errs = append(errs, fmt.Errorf("source %q has type subscriber: give it with outrider.WithSource(%q, ...)", name, name))
		}
	}
	return errors.Join(errs...)
}

// Run connects, checks sources and destinations, and delivers until ctx ends;
// then it drains: reading stops, what is under way is finished and settled, and
// the lanes are released. It returns nil after a clean drain, and [ErrCutOff] after
// one that did not end in time. What is closed at the end has what is left of the
// drain timeout, or a second; an error says what was not closed in that time. A
// relay runs once: another Run returns an error and changes nothing.
func (o *Outrider) Run(ctx context.Context) (err error) {
	if !o.begun.CompareAndSwap(false, true) {
		return errors.New("this relay runs already, or has run: make another one with outrider.New")
	}
	defer close(o.ended)
	if at, err := failpoint.Armed(); err != nil {
		return err
	} else if at != "" {
		o.log.Warn("this process will kill itself: "+failpoint.Env+" is set, which is for tests", "at", string(at))
	}
	o.warn(o.cfg)
	if o.cfg.Admin.Enabled() {
		if err := o.startAdmin(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.admin.Close()) }()
	}
	next, err := prepare(ctx, newBuilder(o.cfg, o.options))
	if err != nil && ctx.Err() != nil {
		return nil // asked to stop before it began: nothing is under way
	}
	for next != nil && err == nil {
		next, err = o.serve(ctx, next)
	}
	return err
}

// warn logs what the configuration's author should know, such as a connection
// that is not encrypted.
func (o *Outrider) warn(cfg *Config) {
	for _, w := range cfg.Warnings {
		o.log.Warn("configuration: " + w.Error())
	}
}

// Ready is closed once the relay delivers, or stands by for another instance.
func (o *Outrider) Ready() <-chan struct{} { return o.ready }

// Stats returns the counters of all routes since Run began or the latest
// [Outrider.Reload], nil before.
func (o *Outrider) Stats() []adapters.RouteStats {
	if s := o.shift.Load(); s != nil {
		return s.router.Stats()
	}
	return nil
}

// AdminAddress is where the admin server listens, once Run has started it; the
// empty string when there is none.
func (o *Outrider) AdminAddress() string {
	if o.admin == nil {
		return ""
	}
	return o.admin.Addr()
}

// startAdmin serves health and metrics from the beginning, so that a start that
// hangs can be seen.
func (o *Outrider) startAdmin() error {
	s, err := admin.Listen(o.adminConfig())
	if err != nil {
		return err
	}
	o.admin = s
	return nil
}

// Handler returns the admin server's handler, to be mounted in a server of the
// program's own, for example under /outrider/ with [http.StripPrefix]: health
// (/livez, /readyz), /routes and /metrics. It asks for the configured tokens; without
// any, put the program's own authentication before it. It may be served before Run
// begins.
func (o *Outrider) Handler() http.Handler { return admin.Handler(o.adminConfig()) }

func (o *Outrider) adminConfig() admin.Config {
	return admin.Config{
		Listen: o.cfg.Admin.Listen, Tokens: reveal(o.cfg.Admin.Tokens), Hosts: o.cfg.Admin.Hosts, Logger: o.log,
		Stats: o.Stats, Ready: o.readiness, Metrics: shownMetrics{o},
	}
}

// readiness says why the relay is not ready, or nothing when it is.
func (o *Outrider) readiness() string {
	switch phase(o.state.Load()) {
	case running:
		return strings.Join(o.shift.Load().router.Problems(), "\n")
	case draining:
		return "draining: the process was asked to stop"
	case changing:
		return "reloading: one configuration drains, then the next one takes over"
	default:
		return "starting: sources and destinations are being checked"
	}
}
