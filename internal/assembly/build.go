package assembly

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
	"go.opentelemetry.io/otel/trace"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/telemetry"
	"github.com/outriderhq/outrider/router"
)

// Builder turns a configuration into parts.
type Builder struct {
	Config  *config.Config
	Options Options
	log     *slog.Logger
	Metrics *prometheus.Registry // of retention
	Layers  *prometheus.Registry // of middleware
}

// NewBuilder makes a builder; see [OptionsOf].
func NewBuilder(cfg *config.Config, o Options) *Builder {
	return &Builder{Config: cfg, Options: o, log: o.Logger, Metrics: prometheus.NewRegistry(), Layers: prometheus.NewRegistry()}
}

// Parts is everything that a configuration is turned into.
type Parts struct {
	Feeds        map[string]Feed // by source
	destinations map[string]adapters.Destination
	States       map[string]adapters.OperatorStore // by location
	unopened     map[string]error                  // why a state store cannot be opened, by location: it is tried once
	leaders      map[string]leaderLock             // by source
	Routes       []router.Route

	events  map[adapters.OperatorStore]adapters.DedupeStore // shared by the dedupe middleware of the routes
	traces  *telemetry.Traces                               // nil: no route has the tracing middleware, or the program supplies the provider
	settles trace.Tracer                                    // nil: no route is traced

	checks checks
}

// checks are made side by side while the rest is built: each is mostly waiting for a
// server, and one that does not answer must not delay the rest.
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
// cannot be reached is one problem, however many routes need it.
func distinct(errs []error) (out []error) {
	seen := map[string]bool{}
	for _, err := range errs {
		if text, _, ok := ConnectionProblem(err); ok {
			if seen[text] {
				continue
			}
			seen[text] = true
		}
		out = append(out, err)
	}
	return out
}

// Build connects and checks everything that the routes use. All problems are
// reported at once.
func (b *Builder) Build(ctx context.Context) (*Parts, error) {
	p := &Parts{destinations: map[string]adapters.Destination{}, leaders: map[string]leaderLock{},
		events: map[adapters.OperatorStore]adapters.DedupeStore{}}
	var errs []error
	for _, r := range b.Config.Routes {
		route, err := b.buildRoute(ctx, p, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.Routes = append(p.Routes, route)
	}
	if len(errs) == 0 {
		p.checks.start(func() error { return b.checkProgress(ctx, p) })
	}
	if errs = append(p.checks.wait(), errs...); len(errs) > 0 {
		return nil, errors.Join(append(distinct(errs), p.Close())...)
	}
	return p, nil
}

func (b *Builder) buildRoute(ctx context.Context, p *Parts, r config.Route) (router.Route, error) {
	out := router.Route{Name: r.Name, Match: Matcher(r.Match), Order: adapters.OrderMode(r.Order), Window: r.Window, Start: Start(r.Start),
		Pace: routePollOf(r.Poll), Progress: r.Progress != nil}
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
	if out.State, err = b.OpenState(ctx, p, r.From); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	if err := b.buildLeader(ctx, p, r.From, &out); err != nil {
		return out, fmt.Errorf("source %q: %w", r.From, err)
	}
	if err := b.stack(ctx, layers, b.Config.Destinations[r.To], &out); err != nil {
		return out, fmt.Errorf("route %q: %w", r.Name, err)
	}
	return out, nil
}

// buildLeader configures a route for a source with one instance at a time. Routes
// of one source share the lock.
func (b *Builder) buildLeader(ctx context.Context, p *Parts, source string, out *router.Route) error {
	k := b.Source(source)
	if !k.Leader {
		return nil
	}
	out.Leader = source
	if k.Lock == nil {
		return nil
	}
	if p.leaders[source] == nil {
		lock, err := k.Lock(ctx)
		if err != nil {
			return err
		}
		p.leaders[source] = lock
	}
	out.LeaderLock = p.leaders[source]
	return nil
}

// Matcher is the rows that a section `match` selects.
func Matcher(m config.Match) func(*adapters.Row) bool {
	return func(r *adapters.Row) bool {
		return r.Undecoded || m.Matches(config.Event{Type: r.Type, AggregateType: r.AggregateType, Tenant: r.Tenant, Tags: r.Tags, Headers: r.Headers})
	}
}

// routePollOf is the poll of a route; the zero value: each poll of its source.
func routePollOf(p *config.RoutePoll) router.Poll {
	if p == nil {
		return router.Poll{}
	}
	return router.Poll{Min: p.Min.Std(), After: p.After, Factor: p.Factor, Max: p.Max.Std()}
}

// Start is where a route begins that has no cursor.
func Start(s config.Start) adapters.Start {
	return adapters.Start{Kind: adapters.StartKind(s.Kind), Time: s.Time}
}

// RouterConfig has the settings of the router.
func (b *Builder) RouterConfig() router.Config {
	return router.Config{
		Instance: b.Options.Instance, Memory: int64(b.Config.Memory), Lease: b.Config.Lease.Std(),
		SettleInterval: b.Config.SettleInterval.Std(), DrainTimeout: b.Config.DrainTimeout.Std(),
		Logger: b.log, Redact: RedactURL,
	}
}

// RedactURL masks what may be secret in an address: user information and the
// query of a URL. Other addresses are shown as they are, and so is the table behind the name of a PostgreSQL database.
func RedactURL(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	if database, table, ok := strings.Cut(address, " "); ok && strings.HasPrefix(address, "postgres://") && !strings.Contains(table, "@") {
		return RedactURL(database) + " " + table
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

// SortedNames are the keys of a map, sorted.
func SortedNames[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
