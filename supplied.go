package outrider

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// option changes how parts are built.
type option func(*options)

// options are what the embedding program supplies beside the configuration.
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

// optionsOf are the options with their defaults.
func optionsOf(opts []option) options {
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
func (o *options) check(cfg *config.Config) error {
	errs, b := slices.Clone(o.unusable), newBuilder(cfg, *o)
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
		if !b.destination(name).supplied {
			errs = append(errs, fmt.Errorf("WithDestination(%q): the configuration has no destination of this name with type: publisher", name))
		}
	}
	for name := range o.subscribers {
		if !b.source(name).supplied {
			errs = append(errs, fmt.Errorf("WithSource(%q): the configuration has no source of this name with type: subscriber", name))
		}
	}
	errs = append(errs, o.checkPools(cfg)...)
	for name := range cfg.Destinations {
		if b.destination(name).supplied && o.destinations[name] == nil {
			errs = append(errs, fmt.Errorf("destination %q has type publisher: give it with outrider.WithDestination(%q, ...)", name, name))
		}
	}
	for name := range cfg.Sources {
		if b.source(name).supplied && o.subscribers[name] == nil {
			errs = append(errs, fmt.Errorf("source %q has type subscriber: give it with outrider.WithSource(%q, ...)", name, name))
		}
	}
	return errors.Join(errs...)
}

// checkPools compares the pools with the configuration.
func (o *options) checkPools(cfg *config.Config) (errs []error) {
	b := newBuilder(cfg, *o)
	for _, name := range sortedNames(o.pools) {
		if !b.source(name).pools {
			errs = append(errs, fmt.Errorf("WithPool(%q): the configuration has no source of this name with type: postgres", name))
		}
	}
	if o.statePool != nil && !b.stateAt(cfg.State.URL.Reveal()).pools {
		errs = append(errs, errors.New("WithStatePool: the configuration names no PostgreSQL database in `state: {url: ...}`; "+
			"state beside a source takes the pool of that source"))
	}
	return errs
}
