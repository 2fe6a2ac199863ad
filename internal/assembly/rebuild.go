package assembly

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// Successor returns the builder of a configuration that some routes of a running relay change to. Middleware goes on counting.
func (b *Builder) Successor(cfg *config.Config) *Builder {
	next := NewBuilder(cfg, b.Options)
	next.Layers = b.Layers
	return next
}

// Rebuild returns the parts of the builder's configuration, which differs from a former one in some routes and their destinations. What those do not
// change is taken from the former parts as it is; what is new is checked as by [Builder.Build]. The parts that are used no more are closed by
// [Parts.CloseReplaced].
func (b *Builder) Rebuild(ctx context.Context, former *config.Config, was *Parts, changed []string) (*Parts, error) {
	p := &Parts{Feeds: was.Feeds, States: was.States, leaders: was.leaders, events: was.events, traces: was.traces, settles: was.settles,
		destinations: map[string]adapters.Destination{}}
	keep := func(name string) {
		if d := was.destinations[name]; d != nil && reflect.DeepEqual(former.Destinations[name], b.Config.Destinations[name]) {
			p.destinations[name] = d
		}
	}
	stays := map[string]*router.Route{}
	for i := range was.Routes {
		if r := &was.Routes[i]; !slices.Contains(changed, r.Name) {
			stays[r.Name] = r
		}
	}
	var errs []error
	for _, r := range b.Config.Routes {
		keep(r.To)
		keep(r.Poison())
		if route := stays[r.Name]; route != nil {
			p.Routes = append(p.Routes, *route)
			continue
		}
		route, err := b.buildRoute(ctx, p, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.Routes = append(p.Routes, route)
	}
	if errs = append(p.checks.wait(), errs...); len(errs) > 0 {
		return nil, errors.Join(append(distinct(errs), p.CloseReplaced(was))...)
	}
	return p, nil
}

// CloseReplaced frees the connections of the destinations that other parts do not have.
func (p *Parts) CloseReplaced(by *Parts) error {
	c := closing{done: make(chan closed, len(p.destinations))}
	for name, d := range p.destinations {
		if by.destinations[name] != d {
			c.begin("destination "+name, d.Close)
		}
	}
	return c.wait(closingLimit)
}
