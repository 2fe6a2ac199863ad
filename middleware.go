package outrider

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router"
)

// stack gives a route its middleware: what is configured, then the options'.
func (b *builder) stack(ctx context.Context, p *parts, r config.Route, out *router.Route) error {
	out.Hindsight, out.SendTimeout = b.looksBack(r)
	for _, m := range r.Middleware {
		if _, limit := m.(*config.Timeout); limit && out.Hindsight {
			continue // SendTimeout is the limit
		}
		mw, err := b.newMiddleware(ctx, p, r.Name, out.State, m)
		if err != nil {
			return err
		}
		if mw != nil {
			out.Middleware = append(out.Middleware, mw)
		}
	}
	out.Middleware = append(out.Middleware, b.options.middleware[r.Name]...)
	return nil
}

// looksBack tells whether all middleware of a route only looks at what came of a
// delivery, so that its chains can run after it, and what its timeout is.
func (b *builder) looksBack(r config.Route) (hindsight bool, limit time.Duration) {
	for _, m := range r.Middleware {
		switch m := m.(type) {
		case *config.Poison, *config.Retry:
		case *config.Timeout:
			limit = m.After.Std()
		default:
			return false, 0
		}
	}
	return len(b.options.middleware[r.Name]) == 0, limit
}

// newMiddleware makes one layer; nil when it would do nothing.
func (b *builder) newMiddleware(
	ctx context.Context, p *parts, route string, state adapters.StateStore, m config.Middleware,
) (message.HandlerMiddleware, error) {
	switch m := m.(type) {
	case *config.Poison:
		return middleware.Poison{Hold: m.Then == "hold"}.Middleware, nil
	case *config.Retry:
		jitter := m.Jitter
		if jitter == 0 {
			jitter = middleware.NoJitter
		}
		retry := middleware.Retry{Attempts: m.Attempts, Base: m.Base.Std(), Max: m.Max.Std(), Jitter: jitter}
		return retry.Middleware, retry.Validate()
	case *config.Timeout:
		timeout := middleware.Timeout{Limit: m.After.Std()}
		return timeout.Middleware, timeout.Validate()
	case *config.Throttle:
		throttle := &middleware.Throttle{Rate: m.Rate.PerSecond(), Burst: m.Burst}
		return throttle.Middleware, throttle.Validate()
	case *config.Dedupe:
		return b.newDedupe(p, route, state, m)
	case *config.Breaker:
		breaker := &middleware.Breaker{Failures: m.Failures, Ratio: m.Ratio, Requests: m.Requests, Interval: m.Interval.Std(),
			Open: m.Open.Std(), Probes: m.Probes, Name: route, Logger: b.log, Registerer: b.registerer()}
		return breaker.Middleware, breaker.Validate()
	case *config.Tracing:
		return b.newTracing(ctx, p)
	case *config.Metrics:
		return (&middleware.Metrics{Registerer: b.registerer()}).Middleware, nil
	}
	return nil, fmt.Errorf("middleware %q is not built into this program", m.Kind())
}

// newDedupe makes the dedupe of a route. Routes with one state store ask it
// together.
func (b *builder) newDedupe(p *parts, route string, state adapters.StateStore, m *config.Dedupe) (message.HandlerMiddleware, error) {
	dedupe := &middleware.Dedupe{Window: m.Window.Std(), Scope: route, Logger: b.log.With("route", route)}
	if m.Store == config.DedupeMemory {
		if b.options.memories == nil {
			dedupe.Max = m.Max
		} else {
			dedupe.Store = b.options.memories.of(route, m.Max, dedupe.Logger)
		}
		return dedupe.Middleware, dedupe.Validate()
	}
	store := p.events[state]
	if store == nil {
		events, ok := state.(adapters.DedupeStore)
		if !ok {
			return nil, fmt.Errorf("dedupe: the state store %T keeps no event ids: use `dedupe: {store: memory}`", state)
		}
		store = middleware.Coalesce(events)
		p.events[state] = store
	}
	dedupe.Store = store
	return dedupe.Middleware, dedupe.Validate()
}

// newTracing makes the tracing of a route, or none when nobody takes spans.
func (b *builder) newTracing(ctx context.Context, p *parts) (message.HandlerMiddleware, error) {
	if b.options.tracing != nil {
		return middleware.Tracing{Provider: b.options.tracing}.Middleware, nil
	}
	if !tracingConfigured() {
		return nil, nil
	}
	if p.tracer == nil {
		t, err := newTracer(ctx, b.log)
		if err != nil {
			return nil, err
		}
		p.tracer = t
	}
	return middleware.Tracing{Provider: p.tracer.provider}.Middleware, nil
}

// registerer is where middleware registers its metrics.
func (b *builder) registerer() prometheus.Registerer {
	if b.options.registerer != nil {
		return b.options.registerer
	}
	return b.metrics
}
