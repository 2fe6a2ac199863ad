package router

import (
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/ownership"
	"github.com/outriderhq/outrider/router/internal/polling"
)

// ErrStopping is the error of a [Router.Change] of a router that stops before.
var ErrStopping = errors.New("the router stops")

// Changeable reports whether the routes of a source can be changed by [Router.Change]: it is read by cursor, without a leader and without a
// group that assigns its slots.
func (r *Router) Changeable(source adapters.Source) bool {
	return slices.ContainsFunc(r.routes.All(), func(rt *wired) bool {
		return rt.reader != nil && rt.Source == source && rt.def.Leader == "" && rt.Group == nil
	})
}

// Change ends routes, by name, and has others begin, while the rest goes on: what the old ones have in flight is finished first, in the time of
// a drain, and written down, and the new ones continue at the cursors of their names. So a route that differs is ended and begun. Sources,
// which have to be [Router.Changeable], and state stores are those of routes that the router has.
//
// It returns when lanes of the new routes were asked for. After an error nothing has changed, but for [ErrStopping]: a router that stops may have
// ended the old ones. It is called after [Router.Ready].
func (r *Router) Change(ended []string, begun []Route) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	fresh, err := r.wire(ended, begun)
	if err != nil {
		return err
	}
	if err := lane.Compose(lanesOf(fresh)); err != nil {
		return err
	}
	old := slices.DeleteFunc(slices.Clone(r.routes.All()), func(rt *wired) bool { return !slices.Contains(ended, rt.Name) })
	for m, routes := range byManager(old) {
		if !m.Retire(routes) {
			return ErrStopping
		}
	}
	for _, rd := range r.readers {
		rd.Remove(lanesOf(old))
	}
	for _, rt := range fresh {
		rt.pace = rt.reader.Add(rt.Route.Route, polling.Config(rt.def.Pace))
	}
	r.routes.Replace(func(rt *wired) bool { return slices.Contains(old, rt) }, fresh...)
	were, are := byManager(old), byManager(fresh)
	for _, m := range r.managers {
		m.Swap(were[m], are[m])
	}
	for _, rt := range old {
		rt.Health.Close()
	}
	return nil
}

func byManager(routes []*wired) map[*ownership.Manager][]*ownership.Route {
	out := map[*ownership.Manager][]*ownership.Route{}
	for _, rt := range routes {
		out[rt.manager] = append(out[rt.manager], rt.Route)
	}
	return out
}

// wire makes routes that begin when others have ended.
func (r *Router) wire(ended []string, begun []Route) (fresh []*wired, err error) {
	var errs []error
	for _, name := range ended {
		if rt := r.named(name); rt == nil || !r.Changeable(rt.Source) {
			errs = append(errs, fmt.Errorf("route %q cannot be ended while the router runs", name))
		}
	}
	for _, def := range begun {
		def.setDefaults()
		if err := def.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		i := slices.IndexFunc(r.managers, func(m *ownership.Manager) bool { return m.Store == def.State })
		if i < 0 || !r.Changeable(def.Source) || r.named(def.Name) != nil && !slices.Contains(ended, def.Name) {
			errs = append(errs, fmt.Errorf("route %q cannot begin while the router runs", def.Name))
			continue
		}
		rt := lane.NewRoute(def.lanes(), &r.shared)
		if former := r.named(def.Name); former != nil {
			rt.PutBack = former.PutBack
		}
		w := &wired{def: def, manager: r.managers[i], Route: r.managers[i].Make(rt, def.owned()), reader: r.readerOf(def)}
		rt.Connect(w.reader, w.Route)
		fresh = append(fresh, w)
	}
	return fresh, errors.Join(errs...)
}
