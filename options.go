package outrider

import (
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/batches"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/middleware"
)

// Option changes how a relay is built.
type Option = assembly.Option

// WithMiddleware adds middleware to a route, outermost first, inside of what the
// configuration lists for it: inside of retry, so that their failures are retried, and
// inside of the timeout. Any Watermill middleware works. It may do anything, so messages
// wait in the chain for their delivery; see [WithLayers]. A route that lists
// `middleware: []` has only this middleware.
func WithMiddleware(route string, mw ...message.HandlerMiddleware) Option {
	return func(o *assembly.Options) {
		for i, m := range mw {
			o.Require(fmt.Sprintf("WithMiddleware(%q), middleware %d", route, i+1), m)
			o.Middleware[route] = append(o.Middleware[route], middleware.Func(m))
		}
	}
}

// WithLayers is [WithMiddleware] for layers: one that only looks at the result of a
// delivery keeps the route delivering first, which takes about half of the processor time
// ([middleware.Layer]). For a plain Watermill middleware of that kind:
//
//	outrider.WithLayers("orders", middleware.AfterDelivery(audit))
func WithLayers(route string, layers ...middleware.Layer) Option {
	return func(o *assembly.Options) {
		for i, l := range layers {
			o.Require(fmt.Sprintf("WithLayers(%q), layer %d", route, i+1), l)
		}
		o.Middleware[route] = append(o.Middleware[route], layers...)
	}
}

// WithDestination supplies a destination that the configuration declares as
// `type: publisher`: a Watermill publisher, to which messages go one at a time
// per group, to the configured topic. The relay closes it. A publisher that
// panics fails the attempt, like one that returns an error.
func WithDestination(name string, p message.Publisher) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithDestination(%q)", name), p)
		o.Supply(name, p)
	}
}

// WithBatchDestination is [WithDestination] for a destination of Outrider's own
// kind, which takes batches and declares how they are ordered.
func WithBatchDestination(name string, d adapters.Destination) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithBatchDestination(%q)", name), d)
		o.Destinations[name] = func(*config.Publisher) (adapters.Destination, error) { return d, nil }
	}
}

// WithPublisher is [WithDestination] for a publisher of the program that accepts or refuses batches as a whole and reports whether it is
// healthy: see package batches. The relay does not close it.
func WithPublisher(name string, p batches.Publisher) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithPublisher(%q)", name), p)
		if p != nil {
			o.Destinations[name] = func(d *config.Publisher) (adapters.Destination, error) {
				return batches.Limited(p, d.Batch.MaxMessages), nil
			}
		}
	}
}

// WithListeners supplies a destination that the configuration declares as `type:
// listeners`: functions of the program, see package listeners.
func WithListeners(name string, r *listeners.Registry) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithListeners(%q)", name), r)
		if r != nil {
			o.Listeners[name] = r.Destination
		}
	}
}

// WithSource supplies a source that the configuration declares as
// `type: subscriber`. Progress is the subscriber's own: a message is acked when
// it was delivered, skipped or durably parked.
func WithSource(name string, s message.Subscriber) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithSource(%q)", name), s)
		o.Subscribers[name] = s
	}
}

// WithLogger sets the logger. Default, also for nil: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(o *assembly.Options) { o.Logger = l } }

// WithInstance names this process among others on the same state store.
// Default: the host's name and a unique id.
func WithInstance(name string) Option { return func(o *assembly.Options) { o.Instance = name } }

// WithRegisterer sets where the metrics middleware, and the breaker's metrics,
// are registered. Default: the admin server's /metrics. Several relays may share
// one.
func WithRegisterer(r prometheus.Registerer) Option {
	return func(o *assembly.Options) { o.Registerer = r }
}

// WithTracerProvider sets the provider of the tracing middleware's spans. The
// relay does not shut it down. Default: an exporter configured by
// OpenTelemetry's environment variables, or none.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *assembly.Options) { o.Tracing = p }
}

// WithReload sets the function that reads the configuration again for a reload by
// the admin API; see [Outrider.Reload]. Default: the API offers none.
func WithReload(read func() (*Config, error)) Option {
	return func(o *assembly.Options) {
		o.Require("WithReload", read)
		o.Reread = read
	}
}

// WithPool makes connections to the database of a PostgreSQL source like those of the
// program's pool: to the address of its configuration, with its TLS, credentials,
// dial function, run-time parameters and tracer, and with its hooks BeforeConnect
// (for tokens instead of passwords), AfterConnect and BeforeClose. This is so for the
// source, its state unless `state` names another database, its listener and its
// leader lock. Nothing is connected by the source's url any more; it only names the
// database, and may be without a password.
//
// Outrider makes pools of its own from that configuration, because its connections
// have another search_path and longer lives than an application's. The given pool is
// neither used nor closed. Its sizes, lifetimes and the hooks of each acquisition
// (PrepareConn, BeforeAcquire, AfterRelease) have no effect. It must lead to a primary,
// and not through a pooler in transaction mode.
func WithPool(source string, pool *pgxpool.Pool) Option {
	return func(o *assembly.Options) {
		o.Require(fmt.Sprintf("WithPool(%q)", source), pool)
		if pool != nil {
			o.Pools[source] = assembly.ConnectionsOf(pool)
		}
	}
}

// WithStatePool is [WithPool] for the database of `state: {url: ...}`.
func WithStatePool(pool *pgxpool.Pool) Option {
	return func(o *assembly.Options) {
		o.Require("WithStatePool", pool)
		if pool != nil {
			o.StatePool = assembly.ConnectionsOf(pool)
		}
	}
}
