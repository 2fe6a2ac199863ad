package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/claiming"
	"github.com/outriderhq/outrider/router/internal/cow"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/listening"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/ownership"
	"github.com/outriderhq/outrider/router/internal/polling"
	"github.com/outriderhq/outrider/router/internal/reading"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Router runs routes. Make one with [New], call [Router.Run] once.
type Router struct {
	cfg       Config
	log       *slog.Logger
	routes    cow.List[*wired]
	readers   []*reading.Reader
	listeners []*listening.Listener
	claimers  []*claiming.Claimer
	managers  []*ownership.Manager
	budget    memory.Budget
	shared    lane.Shared
	ready     chan struct{}
	begun     atomic.Bool
	changing  sync.Mutex // held by a Change
}

// New checks the routes and wires them; nothing runs and nothing is connected.
func New(cfg Config, routes []Route) (*Router, error) {
	cfg = cfg.WithDefaults()
	r := &Router{cfg: cfg, log: cfg.Logger, ready: make(chan struct{})}
	r.budget = memory.Budget{Limit: cfg.Memory, Wake: r.roomFreed}
	r.shared = lane.Shared{Logger: r.log, Redact: cfg.Redact, Budget: &r.budget, Patience: cfg.Lease,
		Settlers: func(store adapters.StateStore) *settling.Settler { return r.managerOf(store).Settler }}
	if len(routes) == 0 {
		return nil, errors.New("no route is configured: nothing would be delivered")
	}
	names := map[string]bool{}
	var errs []error
	for _, def := range routes {
		if names[def.Name] {
			errs = append(errs, fmt.Errorf("route %q is defined twice", def.Name))
		}
		names[def.Name] = true
		def.setDefaults()
		if err := def.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		r.add(def)
	}
	return r, errors.Join(errs...)
}

// wired is a route with its manager and its feeder.
type wired struct {
	*ownership.Route
	def      Route
	manager  *ownership.Manager  // of its lanes
	reader   *reading.Reader     // of a log table
	claimer  *claiming.Claimer   // of a queue
	pace     *polling.RoutePoll  // of one with a pace of its own
	listener *listening.Listener // of a subscriber
}

func (r *Router) add(def Route) {
	rt := lane.NewRoute(def.lanes(), &r.shared)
	m := r.managerOf(def.State)
	w := &wired{def: def, manager: m, Route: m.Make(rt, def.owned())}
	m.Add(w.Route)
	r.routes.Append(w)
	switch {
	case def.Subscriber != nil:
		w.listener = listening.New(rt, listening.Config{Subscriber: def.Subscriber, Topic: def.Topic, MaxRow: def.MaxRow})
		r.listeners = append(r.listeners, w.listener)
		rt.Connect(w.listener, w.Route)
	case def.Queue != nil:
		w.claimer = r.claimerOf(def)
		w.claimer.Add(rt)
		rt.Connect(w.claimer, w.Route)
	default:
		rd := r.readerOf(def)
		w.reader, w.pace = rd, rd.Add(rt, polling.Config(def.Pace))
		rt.Connect(rd, w.Route)
	}
}

func (r *Router) managerOf(store adapters.StateStore) *ownership.Manager {
	for _, m := range r.managers {
		if m.Store == store {
			return m
		}
	}
	cfg := ownership.Config{Store: store, Log: r.log, Instance: r.cfg.Instance, Lease: r.cfg.Lease,
		SettleInterval: r.cfg.SettleInterval, DrainTimeout: r.cfg.DrainTimeout, AllStopped: r.allStopped}
	if r.cfg.Before != nil {
		cfg.Before = func(ctx context.Context, routes []string) map[string]error { return r.cfg.Before(ctx, store, routes) }
	}
	m := ownership.New(cfg)
	m.Settler.Settled = r.cfg.Settled
	r.managers = append(r.managers, m)
	return m
}

func (r *Router) readerOf(def Route) *reading.Reader {
	for _, rd := range r.readers {
		if rd.Source == def.Source {
			return rd
		}
	}
	rd := reading.New(def.Source, reading.Config{Poll: polling.Config(def.Poll), Patience: r.cfg.Lease, Budget: &r.budget, Log: r.log})
	r.readers = append(r.readers, rd)
	return rd
}

func (r *Router) claimerOf(def Route) *claiming.Claimer {
	for _, c := range r.claimers {
		if c.Queue == def.Queue {
			return c
		}
	}
	c := claiming.New(def.Queue, claiming.Config{Poll: polling.Config(def.Poll), Claims: claiming.Limits(def.Claims), Hot: claiming.Hot(def.Hot), Budget: &r.budget, Log: r.log, Patience: r.cfg.Lease,
		SettleInterval: r.cfg.SettleInterval, DrainTimeout: r.cfg.DrainTimeout})
	c.Settler.Settled = r.cfg.Settled
	r.claimers = append(r.claimers, c)
	return c
}

// Ready is closed when this instance has the lanes or another one runs them.
func (r *Router) Ready() <-chan struct{} { return r.ready }

// Instance is the name of this process among others.
func (r *Router) Instance() string { return r.cfg.Instance }

// Wake has the source, an [adapters.Source] or an [adapters.Queue], polled at once. It never waits. Call it after the commit.
func (r *Router) Wake(source any) {
	for _, b := range r.backoffsOf(source) {
		signal.Send(b.Signal)
	}
}

// backoffsOf returns the backoffs of what reads a source.
func (r *Router) backoffsOf(source any) (out []*polling.Backoff) {
	for _, rd := range r.readers {
		if any(rd.Source) == source {
			out = append(out, rd.Backoff)
		}
	}
	for _, c := range r.claimers {
		if any(c.Queue) == source {
			out = append(out, c.Backoff)
		}
	}
	return out
}

// Notice has operators' commands in a state store noticed at once, instead of with the next renewal of the lease.
func (r *Router) Notice(store adapters.StateStore) {
	for _, m := range r.managers {
		if m.Store == store {
			m.RenewNow()
		}
	}
}

// ProbeNow tries an address of a route that is down, as status shows it, at once. It returns false when no probe was planned.
func (r *Router) ProbeNow(route, address string) bool {
	rt := r.named(route)
	return rt != nil && rt.Health.ProbeNow(address)
}

// lanesOf returns the lanes of routes.
func lanesOf(routes []*wired) []*lane.Route {
	out := make([]*lane.Route, len(routes))
	for i, rt := range routes {
		out[i] = rt.Route.Route
	}
	return out
}

// named returns a route by its name; nil: there is none.
func (r *Router) named(name string) *wired {
	all := r.routes.All()
	if i := slices.IndexFunc(all, func(rt *wired) bool { return rt.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Announce prepares an INSERT into the table of a queue, see [outbox.HotPath]. nil: its rows are left to the poll.
func (r *Router) Announce(queue adapters.Queue, insert string) outbox.HotInsert {
	for _, c := range r.claimers {
		if c.Queue != queue {
			continue
		}
		if in := c.Announce(insert); in != nil {
			return in
		}
	}
	return nil
}

// AnnounceRows prepares an INSERT into the table of a source. nil: its rows are left to the poll.
func (r *Router) AnnounceRows(source adapters.Source, insert string) HotRows {
	src, ok := source.(adapters.HotSource)
	for _, rd := range r.readers {
		if ok && rd.Source == source {
			return rd.Announce(src, insert)
		}
	}
	return nil
}

// HotRows is an INSERT whose rows are claimed from memory after the commit, where that is certain to be in order.
type HotRows = *reading.Insert

// Committed has the reader of a source read slots at once, a bit for each, in which this process has committed rows. See [outbox.HotPath].
func (r *Router) Committed(source adapters.Source, slots uint32) {
	for _, rd := range r.readers {
		if rd.Source == source {
			rd.Committed(slots)
		}
	}
}

// SetPoll changes how the source, an [adapters.Source] or an [adapters.Queue], is polled, from the next poll on, which comes at once. Messages in
// flight and the owners of lanes stay as they are.
func (r *Router) SetPoll(source any, p Poll) {
	for _, b := range r.backoffsOf(source) {
		b.Set(polling.Config(p.WithDefaults()))
	}
}

// roomFreed signals all readers that there may be room again.
func (r *Router) roomFreed() {
	for _, rd := range r.readers {
		rd.RoomFreed()
	}
	for _, c := range r.claimers {
		c.RoomFreed()
	}
}

// allStopped returns why none of the routes can run; nil while some can.
func (r *Router) allStopped() error {
	var errs []error
	for _, m := range r.managers {
		err := m.AllStopped()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
