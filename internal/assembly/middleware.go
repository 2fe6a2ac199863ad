package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/router"
)

// layers are the layers that the configuration gives a route. It sets what the router
// has to know of them; they are made later, by [Builder.stack].
func (b *Builder) layers(p *Parts, r config.Route, out *router.Route) (layers []middlewareKind) {
	at := layerSite{b, p, r.Name, r.From}
	for _, m := range r.Middleware {
		k := layer(at, m)
		layers = append(layers, k)
		if out.Attempts == 0 {
			out.Attempts = k.attempts
		}
		if out.PoisonName == "" {
			out.PoisonName = k.poison
		}
	}
	return layers
}

// layer is one layer of a route's stack.
func layer(at layerSite, m config.Middleware) middlewareKind {
	if of := middlewareKinds[m.Kind()]; of != nil {
		return of(at, m)
	}
	return middlewareKind{make: func(context.Context) (middleware.Layer, error) {
		return nil, fmt.Errorf("middleware %q is not built into this program", m.Kind())
	}}
}

// stack gives a route its middleware: what is configured, then the options', then what its destination needs.
func (b *Builder) stack(ctx context.Context, kinds []middlewareKind, to config.Destination, out *router.Route) error {
	var layers []middleware.Layer
	for _, k := range kinds {
		l, err := k.make(ctx)
		if err != nil {
			return err
		}
		if l != nil {
			layers = append(layers, l)
		}
	}
	layers = append(layers, b.Options.Middleware[out.Name]...)
	if v := config.DebeziumOf(to); v != nil {
		layers = append(layers, debeziumValue{Converter: v.Value, Expand: v.Expand, Tombstone: v.Tombstone})
	}
	out.Use(layers...)
	return nil
}

// made is how a layer is made that needs nothing which could fail.
func made(l middleware.Layer, err error) func(context.Context) (middleware.Layer, error) {
	return func(context.Context) (middleware.Layer, error) { return l, err }
}

func poisonLayer(_ layerSite, m *config.Poison) middlewareKind {
	return middlewareKind{poison: m.To, make: made(middleware.Poison{Hold: m.Then == "hold"}, nil)}
}

func retryLayer(_ layerSite, m *config.Retry) middlewareKind {
	jitter := m.Jitter
	if jitter == 0 {
		jitter = middleware.NoJitter
	}
	retry := middleware.Retry{Attempts: m.Attempts, Base: m.Base.Std(), Max: m.Max.Std(), Jitter: jitter, Linear: m.Growth == "linear"}
	return middlewareKind{attempts: m.Attempts, make: made(retry, retry.Validate())}
}

func timeoutLayer(_ layerSite, m *config.Timeout) middlewareKind {
	timeout := middleware.Timeout{Limit: m.After.Std()}
	return middlewareKind{make: made(timeout, timeout.Validate())}
}

func throttleLayer(_ layerSite, m *config.Throttle) middlewareKind {
	throttle := &middleware.Throttle{Rate: m.Rate.PerSecond(), Burst: m.Burst}
	return middlewareKind{make: made(throttle, throttle.Validate())}
}

func breakerLayer(at layerSite, m *config.Breaker) middlewareKind {
	breaker := &middleware.Breaker{Failures: m.Failures, Ratio: m.Ratio, Requests: m.Requests, Interval: m.Interval.Std(),
		Open: m.Open.Std(), Probes: m.Probes, Name: at.route, Logger: at.log, Registerer: at.registerer()}
	return middlewareKind{make: made(breaker, breaker.Validate())}
}

func metricsLayer(at layerSite, _ *config.Metrics) middlewareKind {
	return middlewareKind{make: made((&middleware.Metrics{Registerer: at.registerer()}), nil)}
}

// registerer is where middleware registers its metrics.
func (b *Builder) registerer() prometheus.Registerer {
	if b.Options.Registerer != nil {
		return b.Options.Registerer
	}
	return b.Layers
}

// dedupeLayer drops duplicates of the producer. Routes with one state store ask it
// together.
func dedupeLayer(at layerSite, m *config.Dedupe) middlewareKind {
	return middlewareKind{make: func(ctx context.Context) (middleware.Layer, error) { return newDedupe(ctx, at, m) }}
}

func newDedupe(ctx context.Context, at layerSite, m *config.Dedupe) (middleware.Layer, error) {
	dedupe := &middleware.Dedupe{Window: m.Window.Std(), Scope: at.route, Logger: at.log.With("route", at.route)}
	if m.Store == config.DedupeMemory {
		if at.Options.memories == nil {
			dedupe.Max = m.Max
		} else {
			dedupe.Store = at.Options.memories.of(at.route, m.Max, dedupe.Logger)
		}
		return dedupe, dedupe.Validate()
	}
	state, err := at.OpenState(ctx, at.parts, at.from)
	if err != nil {
		return nil, err
	}
	store := at.parts.events[state]
	if store == nil {
		store = middleware.Coalesce(state)
		at.parts.events[state] = store
	}
	dedupe.Store = store
	return dedupe, dedupe.Validate()
}

// memories hold the event ids of `dedupe: {store: memory}`, by route. They are the
// relay's and not its configuration's, so a reload forgets nothing, unless it changes
// how much is remembered.
type memories struct {
	mu    sync.Mutex
	known map[memoryOf]adapters.DedupeStore
}

type memoryOf struct {
	route string
	max   int
}

func (m *memories) of(route string, most int, log *slog.Logger) adapters.DedupeStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoryOf{route, most}
	if m.known == nil {
		m.known = map[memoryOf]adapters.DedupeStore{}
	}
	if m.known[key] == nil {
		m.known[key] = middleware.DedupeMemory(most, log)
	}
	return m.known[key]
}
