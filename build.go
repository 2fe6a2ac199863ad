package outrider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// builder turns a configuration into parts.
type builder struct {
	cfg     *config.Config
	options options
	log     *slog.Logger
	metrics *prometheus.Registry // of middleware and retention
}

func newBuilder(cfg *config.Config, o options) *builder {
	return &builder{cfg: cfg, options: o, log: o.logger, metrics: prometheus.NewRegistry()}
}

// parts is everything that a configuration is turned into.
type parts struct {
	feeds        map[string]feed // by source
	destinations map[string]adapters.Destination
	states       map[string]adapters.StateStore // by location
	away         map[string]error               // why a state store cannot be opened, by location: it is tried once
	leaders      map[string]leaderLock          // by source
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
		if text, _, ok := connectionProblem(err); ok {
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
	p := &parts{destinations: map[string]adapters.Destination{}, leaders: map[string]leaderLock{},
		events: map[adapters.StateStore]adapters.DedupeStore{}}
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
	out := router.Route{Name: r.Name, Match: matcher(r.Match), Order: adapters.OrderMode(r.Order), Window: r.Window, Start: start(r.Start)}
	f, fresh, err := b.openFeed(ctx, p, r.From)
	if err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	f.give(&out)
	if fresh {
		p.checks.start(func() error {
			if err := f.check(ctx); err != nil {
				return fmt.Errorf("source %q: %w", r.From, err)
			}
			return nil
		})
	}
	layers := b.layers(p, r, &out)
	if out.Destination, err = b.buildDestination(ctx, p, r.To); err != nil {
		return out, fmt.Errorf("destination %q: %w", r.To, err)
	}
	if out.PoisonName != "" {
		if out.Poison, err = b.buildDestination(ctx, p, out.PoisonName); err != nil {
			return out, fmt.Errorf("destination %q: %w", out.PoisonName, err)
		}
	}
	if out.State, err = b.openState(ctx, p, r.From); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	if err := b.buildLeader(ctx, p, r.From, &out); err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	if err := b.stack(ctx, layers, &out); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	return out, nil
}

// buildLeader tells a route that its source has one instance at a time. Routes
// of one source share the lock.
func (b *builder) buildLeader(ctx context.Context, p *parts, source string, out *router.Route) error {
	k := b.source(source)
	if !k.leader {
		return nil
	}
	out.Leader = source
	if k.lock == nil {
		return nil
	}
	if p.leaders[source] == nil {
		lock, err := k.lock(ctx)
		if err != nil {
			return err
		}
		p.leaders[source] = lock
	}
	out.LeaderLock = p.leaders[source]
	return nil
}

func matcher(m config.Match) func(*adapters.Row) bool {
	return func(r *adapters.Row) bool {
		return m.Matches(config.Event{Type: r.Type, AggregateType: r.AggregateType, Tenant: r.Tenant, Tags: r.Tags})
	}
}

func start(s config.Start) adapters.Start {
	return adapters.Start{Kind: adapters.StartKind(s.Kind), Time: s.Time}
}

// routerConfig is what the configuration says of the router.
func (b *builder) routerConfig() router.Config {
	return router.Config{
		Instance: b.options.instance, Memory: int64(b.cfg.Memory), Lease: b.cfg.Lease.Std(),
		SettleInterval: b.cfg.SettleInterval.Std(), DrainTimeout: b.cfg.DrainTimeout.Std(),
		Logger: b.log, Redact: redactURL,
	}
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

// sortedNames are the keys of a map, sorted.
func sortedNames[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
