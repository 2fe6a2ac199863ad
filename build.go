package outrider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// parts is everything that a configuration is turned into.
type parts struct {
	sources      map[string]outbox.Source
	destinations map[string]outbox.Destination
	states       map[string]outbox.StateStore // by location
	routes       []router.Route
}

// build connects and checks everything that the routes use. All problems are
// reported at once.
func (o *Outrider) build(ctx context.Context) (*parts, error) {
	p := &parts{sources: map[string]outbox.Source{}, destinations: map[string]outbox.Destination{},
		states: map[string]outbox.StateStore{}}
	var errs []error
	for _, r := range o.cfg.Routes {
		route, err := o.buildRoute(ctx, p, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.routes = append(p.routes, route)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (o *Outrider) buildRoute(ctx context.Context, p *parts, r config.Route) (router.Route, error) {
	order := outbox.OrderMode(r.Order)
	out := router.Route{
		Name: r.Name, Match: matcher(r.Match), Order: order, Window: r.Window,
		Start: start(r.Start), Attempts: attempts(r.Middleware),
	}
	var err error
	if out.Middleware, err = o.stack(r); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	if err := o.buildSource(ctx, p, r.From, &out); err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	if out.Destination, err = o.buildDestination(ctx, p, r.To); err != nil {
		return out, fmt.Errorf("destination %q: %w", r.To, err)
	}
	if out.State, err = buildState(ctx, o, p, o.cfg.Sources[r.From]); err != nil {
		return out, fmt.Errorf("state store of route %q: %w", r.Name, err)
	}
	return out, nil
}

// stack is the middleware of a route: what is configured, then the options'.
func (o *Outrider) stack(r config.Route) ([]message.HandlerMiddleware, error) {
	var out []message.HandlerMiddleware
	for _, m := range r.Middleware {
		mw, err := buildMiddleware(m)
		if err != nil {
			return nil, err
		}
		out = append(out, mw)
	}
	return append(out, o.options.middleware[r.Name]...), nil
}

func buildMiddleware(m config.Middleware) (message.HandlerMiddleware, error) {
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
	}
	return nil, fmt.Errorf("middleware %q is not built into this program", m.Kind())
}

// attempts is the number of attempts that the route's retry allows.
func attempts(stack []config.Middleware) int {
	for _, m := range stack {
		if r, ok := m.(*config.Retry); ok {
			return r.Attempts
		}
	}
	return 0
}

func matcher(m config.Match) func(*outbox.Row) bool {
	return func(r *outbox.Row) bool {
		return m.Matches(config.Event{Type: r.Type, AggregateType: r.AggregateType, Tenant: r.Tenant, Tags: r.Tags})
	}
}

func start(s config.Start) outbox.Start {
	return outbox.Start{Kind: outbox.StartKind(s.Kind), Time: s.Time}
}

func (o *Outrider) buildSource(ctx context.Context, p *parts, name string, out *router.Route) error {
	var poll config.Poll
	switch s := o.cfg.Sources[name].(type) {
	case *config.Subscriber:
		out.Subscriber, out.Topic = o.options.subscribers[name], s.Topic
		return nil
	case *config.Postgres:
		poll = s.Poll
		if p.sources[name] == nil {
			src, err := postgres.NewSource(ctx, postgres.SourceConfig{URL: s.URL.Reveal(), Table: string(s.Table), Logger: o.log})
			if err != nil {
				return err
			}
			p.sources[name] = src
		}
	case *config.SQLite:
		poll = s.Poll
		if p.sources[name] == nil {
			if err := databaseExists(s.Path); err != nil {
				return err
			}
			src, err := sqlite.NewSource(sqlite.SourceConfig{Path: s.Path, Table: string(s.Table), Logger: o.log})
			if err != nil {
				return err
			}
			p.sources[name] = src
		}
	default:
		return fmt.Errorf("type %q is not built into this program", s.Kind())
	}
	out.Source = p.sources[name]
	out.Poll = router.Poll{Batch: poll.Batch, Min: poll.Min.Std(), After: poll.After, Factor: poll.Factor, Max: poll.Max.Std()}
	return out.Source.Check(ctx)
}

// buildState opens the state store of a source: the configured one, or the
// source's own database. Routes at one location share a store.
func buildState(ctx context.Context, o *Outrider, p *parts, src config.Source) (outbox.StateStore, error) {
	location, err := stateLocation(o.cfg, src)
	if err != nil {
		return nil, err
	}
	if s := p.states[location]; s != nil {
		return s, nil
	}
	s, err := openState(ctx, location, o)
	if err != nil {
		return nil, err
	}
	p.states[location] = s
	return s, nil
}

// stateLocation is the URL or path of the state store for a source.
func stateLocation(cfg *Config, src config.Source) (string, error) {
	if !cfg.State.URL.IsZero() {
		return cfg.State.URL.Reveal(), nil
	}
	switch s := src.(type) {
	case *config.Postgres:
		return s.URL.Reveal(), nil
	case *config.SQLite:
		return s.Path, nil
	}
	return "", errors.New("a source without a database of its own needs `state: {url: ...}` for its parked messages")
}

func openState(ctx context.Context, location string, o *Outrider) (outbox.StateStore, error) {
	if strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://") {
		return postgres.NewState(ctx, postgres.StateConfig{URL: location, Logger: o.log})
	}
	return sqlite.NewState(ctx, sqlite.StateConfig{Path: strings.TrimPrefix(location, "sqlite:")})
}

// close frees all connections.
func (p *parts) close() error {
	var errs []error
	for _, s := range p.sources {
		errs = append(errs, s.Close())
	}
	for _, d := range p.destinations {
		errs = append(errs, d.Close())
	}
	for _, s := range p.states {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func reveal(secrets []config.Secret) []string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		out[i] = s.Reveal()
	}
	return out
}

// redactURL masks what may be secret in an address: user information and the
// query of a URL. Other addresses are shown as they are.
func redactURL(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that is no valid URL)"
	}
	if u.User != nil {
		u.User = url.User("***")
	}
	if u.RawQuery != "" {
		u.RawQuery = "***"
	}
	return u.String()
}
