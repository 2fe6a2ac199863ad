package assembly

import (
	"context"
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
	"github.com/outriderhq/outrider/adapters/watermill"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
)

// Option changes how parts are built.
type Option func(*Options)

// Options are supplied by the embedding program, in addition to the configuration.
type Options struct {
	Middleware   map[string][]middleware.Layer
	Destinations map[string]makeDestination
	Listeners    map[string]func(workers int) (adapters.Destination, error)
	Subscribers  map[string]message.Subscriber
	Pools        map[string]*pgxpool.Config // by source
	StatePool    *pgxpool.Config            // nil: none was given
	Logger       *slog.Logger
	Instance     string
	Registerer   prometheus.Registerer          // nil: that of the admin server
	Reread       func() (*config.Config, error) // reads the configuration for a reload; nil: there are no reloads
	Tracing      trace.TracerProvider           // nil: as OpenTelemetry's environment variables say
	memories     *memories                      // of dedupe middleware
	unusable     []error                        // why options cannot be used
}

// Require notes an option that was given nothing where it needs something.
func (o *Options) Require(option string, value any) {
	if v := reflect.ValueOf(value); !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil() {
		o.unusable = append(o.unusable, fmt.Errorf("%s: it was given nil: see whether an error was overlooked where the value is made", option))
	}
}

// makeDestination finishes a destination with its section of the configuration.
type makeDestination func(*config.Publisher) (adapters.Destination, error)

// OptionsOf are the options with their defaults.
func OptionsOf(opts []Option) Options {
	o := Options{
		Middleware:   map[string][]middleware.Layer{},
		Destinations: map[string]makeDestination{},
		Listeners:    map[string]func(workers int) (adapters.Destination, error){},
		Subscribers:  map[string]message.Subscriber{},
		Pools:        map[string]*pgxpool.Config{},
		Logger:       slog.Default(),
		memories:     &memories{},
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = slog.New(cutTexts{o.Logger.Handler()})
	return o
}

// Check compares the options with the configuration.
func (o *Options) Check(cfg *config.Config) error {
	errs, b := slices.Clone(o.unusable), NewBuilder(cfg, *o)
	routes := map[string]bool{}
	for _, r := range cfg.Routes {
		routes[r.Name] = true
	}
	for name := range o.Middleware {
		if !routes[name] {
			errs = append(errs, fmt.Errorf("WithMiddleware(%q): the configuration has no such route", name))
		}
	}
	for name := range o.Destinations {
		if b.Destination(name).Supplied != "WithDestination" {
			errs = append(errs, fmt.Errorf("WithDestination(%q): the configuration has no destination of this name with type: publisher", name))
		}
	}
	for name := range o.Listeners {
		if b.Destination(name).Supplied != "WithListeners" {
			errs = append(errs, fmt.Errorf("WithListeners(%q): the configuration has no destination of this name with type: listeners", name))
		}
	}
	for name := range o.Subscribers {
		if !b.Source(name).Supplied {
			errs = append(errs, fmt.Errorf("WithSource(%q): the configuration has no source of this name with type: subscriber", name))
		}
	}
	errs = append(errs, o.CheckPools(cfg)...)
	for name := range cfg.Destinations {
		if k := b.Destination(name); k.Supplied != "" && k.Open == nil {
			errs = append(errs, fmt.Errorf("destination %q has type %s: give it with outrider.%s(%q, ...)", name, cfg.Destinations[name].Kind(), k.Supplied, name))
		}
	}
	for name := range cfg.Sources {
		if b.Source(name).Supplied && o.Subscribers[name] == nil {
			errs = append(errs, fmt.Errorf("source %q has type subscriber: give it with outrider.WithSource(%q, ...)", name, name))
		}
	}
	return errors.Join(errs...)
}

// CheckPools compares the pools with the configuration.
func (o *Options) CheckPools(cfg *config.Config) (errs []error) {
	b := NewBuilder(cfg, *o)
	for _, name := range SortedNames(o.Pools) {
		if !b.Source(name).Pools {
			errs = append(errs, fmt.Errorf("WithPool(%q): the configuration has no source of this name with type: postgres", name))
		}
	}
	if o.StatePool != nil && !b.stateAt(cfg.State.URL.Reveal()).Pools {
		errs = append(errs, errors.New("WithStatePool: the configuration names no PostgreSQL database in `state: {url: ...}`; "+
			"state beside a source takes the pool of that source"))
	}
	return errs
}

// listenersDestination has functions that the program supplies.
func listenersDestination(at site, d *config.Listeners) DestinationKind {
	k := DestinationKind{Supplied: "WithListeners"}
	if supplied := at.Options.Listeners[at.name]; supplied != nil {
		k.Open = func() (adapters.Destination, error) { return supplied(d.Workers) }
	}
	return k
}

// publisherDestination is a destination that the program
// supplies, as a Watermill publisher or as one of Outrider's own kind.
func publisherDestination(at site, d *config.Publisher) DestinationKind {
	k := DestinationKind{Supplied: "WithDestination"}
	if supplied := at.Options.Destinations[at.name]; supplied != nil {
		k.Open = func() (adapters.Destination, error) { return supplied(d) }
	}
	return k
}

// Supply has a Watermill publisher be the destination of a name, to the topic that the
// configuration gives it.
func (o *Options) Supply(name string, p message.Publisher) {
	o.Destinations[name] = func(d *config.Publisher) (adapters.Destination, error) {
		return watermill.New(p, watermill.Config{Topic: string(d.Topic), Logger: o.Logger})
	}
}

// subscriberSource is a Watermill subscriber that the program
// supplies. It is the program's to close.
func subscriberSource(at site, s *config.Subscriber) SourceKind {
	return SourceKind{Supplied: true, Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		return Feed{subscriber: at.Options.Subscribers[at.name], topic: s.Topic, maxRow: int64(s.MaxRow)}, nil
	}}
}
