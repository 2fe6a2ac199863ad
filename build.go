package outrider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/config"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router"
)

// parts is everything that a configuration is turned into.
type parts struct {
	sources      map[string]adapters.Source
	queues       map[string]adapters.Queue
	destinations map[string]adapters.Destination
	states       map[string]adapters.StateStore    // by location
	away         map[string]error                  // why a state store cannot be opened, by location: it is tried once
	leaders      map[string]*statestore.LeaderLock // by source
	routes       []router.Route

	events map[adapters.StateStore]adapters.DedupeStore // shared by the dedupe middleware of the routes
	tracer *tracer                                      // nil: no route has the tracing middleware

	checks checks
}

// checks are made side by side while the rest is built: each is mostly waiting for a
// server, and one that is away must not keep the others waiting.
type checks struct {
	running sync.WaitGroup
	errs    []*error
}

func (c *checks) start(check func() error) {
	err := new(error)
	c.errs = append(c.errs, err)
	c.running.Go(func() { *err = check() })
}

// wait returns what was found, in the order in which the checks were started.
func (c *checks) wait() (errs []error) {
	c.running.Wait()
	for _, err := range c.errs {
		if *err != nil {
			errs = append(errs, *err)
		}
	}
	return errs
}

// distinct keeps the first of the errors that have the same cause: a database that
// is away is one problem, however many routes need it.
func distinct(errs []error) (out []error) {
	seen := map[string]bool{}
	for _, err := range errs {
		if text, ok := postgres.ConnectionProblem(err); ok {
			if seen[text] {
				continue
			}
			seen[text] = true
		}
		out = append(out, err)
	}
	return out
}

// build connects and checks everything that the routes use. All problems are
// reported at once.
func (b *builder) build(ctx context.Context) (*parts, error) {
	p := &parts{sources: map[string]adapters.Source{}, queues: map[string]adapters.Queue{}, destinations: map[string]adapters.Destination{},
		states: map[string]adapters.StateStore{}, leaders: map[string]*statestore.LeaderLock{}, events: map[adapters.StateStore]adapters.DedupeStore{}}
	var errs []error
	for _, r := range b.cfg.Routes {
		route, err := b.buildRoute(ctx, p, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.routes = append(p.routes, route)
	}
	if errs = append(p.checks.wait(), errs...); len(errs) > 0 {
		return nil, errors.Join(append(distinct(errs), p.close())...)
	}
	return p, nil
}

func (b *builder) buildRoute(ctx context.Context, p *parts, r config.Route) (router.Route, error) {
	order := adapters.OrderMode(r.Order)
	out := router.Route{
		Name: r.Name, Match: matcher(r.Match), Order: order, Window: r.Window,
		Start: start(r.Start), Attempts: attempts(r.Middleware),
	}
	fresh, err := b.openSource(ctx, p, r.From, &out)
	if err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	if fresh {
		source := out
		p.checks.start(func() error {
			if err := checkSource(ctx, &source); err != nil {
				return fmt.Errorf("source %q: %w", r.From, err)
			}
			return nil
		})
	}
	if out.Destination, err = b.buildDestination(ctx, p, r.To); err != nil {
		return out, fmt.Errorf("destination %q: %w", r.To, err)
	}
	if out.PoisonName = poisonTo(r.Middleware); out.PoisonName != "" {
		if out.Poison, err = b.buildDestination(ctx, p, out.PoisonName); err != nil {
			return out, fmt.Errorf("destination %q: %w", out.PoisonName, err)
		}
	}
	if out.State, err = buildState(ctx, b, p, b.cfg.Sources[r.From]); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	if err := b.buildLeader(ctx, p, r.From, &out); err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	if err := b.stack(ctx, p, r, &out); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	return out, nil
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

// poisonTo is the destination that dead messages go to; empty: none.
func poisonTo(stack []config.Middleware) string {
	for _, m := range stack {
		if p, ok := m.(*config.Poison); ok {
			return p.To
		}
	}
	return ""
}

func matcher(m config.Match) func(*adapters.Row) bool {
	return func(r *adapters.Row) bool {
		return m.Matches(config.Event{Type: r.Type, AggregateType: r.AggregateType, Tenant: r.Tenant, Tags: r.Tags})
	}
}

func start(s config.Start) adapters.Start {
	return adapters.Start{Kind: adapters.StartKind(s.Kind), Time: s.Time}
}

// buildSource opens the source of a route and checks it, unless both were done for
// another one.
func (b *builder) buildSource(ctx context.Context, p *parts, name string, out *router.Route) error {
	fresh, err := b.openSource(ctx, p, name, out)
	if err != nil || !fresh {
		return err
	}
	return checkSource(ctx, out)
}

// checkSource checks what a route reads.
func checkSource(ctx context.Context, r *router.Route) error {
	switch {
	case r.Queue != nil:
		return r.Queue.Check(ctx)
	case r.Source != nil:
		return r.Source.Check(ctx)
	}
	return nil
}

// openSource gives a route what it reads. Routes of one source share it; fresh tells
// that this is the first one, so that it has to be checked.
func (b *builder) openSource(ctx context.Context, p *parts, name string, out *router.Route) (fresh bool, err error) {
	var poll config.Poll
	fresh = p.sources[name] == nil
	switch s := b.cfg.Sources[name].(type) {
	case *config.Subscriber:
		out.Subscriber, out.Topic, out.MaxRow = b.options.subscribers[name], s.Topic, int64(s.MaxRow)
		return false, nil
	case *config.Postgres:
		if s.Queued() {
			return b.openQueue(ctx, p, name, s, out)
		}
		poll = s.Poll
		if fresh {
			src, err := newPostgresSource(ctx, &b.options, name, s, b.log)
			if err != nil {
				return false, err
			}
			p.sources[name] = src
		}
	case *config.SQLite:
		poll = s.Poll
		if fresh {
			if err := databaseExists(s.Path); err != nil {
				return false, err
			}
			src, err := newSQLiteSource(s, b.log)
			if err != nil {
				return false, err
			}
			p.sources[name] = src
		}
	default:
		return false, fmt.Errorf("type %q is not built into this program", s.Kind())
	}
	out.Source = p.sources[name]
	out.Poll = router.Poll{Batch: poll.Batch, Min: poll.Min.Std(), After: poll.After, Factor: poll.Factor, Max: poll.Max.Std()}
	return fresh, nil
}

// buildState opens the state store of a source: the configured one, or the
// source's own database. Routes at one location share a store.
func buildState(ctx context.Context, b *builder, p *parts, src config.Source) (adapters.StateStore, error) {
	location, err := stateLocation(b.cfg, src)
	if err != nil {
		return nil, err
	}
	key := stateKey(location)
	if s := p.states[key]; s != nil {
		return s, nil
	}
	if err := p.away[key]; err != nil {
		return nil, err
	}
	s, err := openState(ctx, location, b)
	if err != nil {
		if p.away == nil {
			p.away = map[string]error{}
		}
		p.away[key] = err
		return nil, err
	}
	p.states[key] = s
	return s, nil
}

// stateKey is a location in the one form that all of its names have: a file has one
// store, however its path is written.
func stateKey(location string) string {
	if inPostgres(location) {
		return location
	}
	name, err := sqlite.File(strings.TrimPrefix(location, "sqlite:"))
	if err != nil || name == "" {
		return location
	}
	if resolved, err := filepath.EvalSymlinks(name); err == nil {
		name = resolved
	}
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	return name
}

// inPostgres reports whether a location of state is in PostgreSQL.
func inPostgres(location string) bool {
	return strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://")
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

func openState(ctx context.Context, location string, b *builder) (adapters.StateStore, error) {
	if inPostgres(location) {
		to, err := b.options.toState(b.cfg, location)
		if err != nil {
			return nil, err
		}
		return statestore.New(ctx, statestore.Config{URL: to.url, TLS: to.tls, Config: to.config, Schema: b.cfg.State.Schema.Exact(), Logger: b.log})
	}
	return sqlite.NewState(ctx, sqlite.StateConfig{Path: strings.TrimPrefix(location, "sqlite:")})
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
