package router

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/outriderhq/outrider/outbox"
)

// Router runs routes. Make one with [New], call [Router.Run] once.
type Router struct {
	cfg       Config
	log       *slog.Logger
	routes    []*wired
	readers   []*reader
	listeners []*listener
	claimers  []*claimer
	keepers   []*keeper
	budget    budget
	shared    Shared
	ready     chan struct{}
	begun     atomic.Bool
}

// New checks the routes and wires them; nothing runs and nothing is connected.
func New(cfg Config, routes []Route) (*Router, error) {
	cfg.setDefaults()
	r := &Router{cfg: cfg, log: cfg.Logger, ready: make(chan struct{})}
	r.budget = budget{limit: cfg.Memory, wake: r.roomFreed}
	r.shared = Shared{Logger: r.log, Redact: cfg.Redact, Budget: &r.budget, Patience: cfg.Lease,
		Settlers: func(store outbox.StateStore) *settler { return r.keeperOf(store).settler }}
	if len(routes) == 0 {
		return nil, errors.New("there is no route: nothing would be delivered")
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

// wired is a route with what is particular to where it comes from.
type wired struct {
	*ownedRoute
	claimer  *claimer  // of a queue
	listener *listener // of a subscriber
}

func (r *Router) add(def Route) {
	rt := newRoute(def.lanes(), &r.shared)
	w := &wired{ownedRoute: r.keeperOf(def.State).add(rt, RouteConfig{Source: def.Source, Start: def.Start, Unit: def.unit(), Lock: def.LeaderLock})}
	r.routes = append(r.routes, w)
	switch {
	case def.Subscriber != nil:
		w.listener = newListener(rt, ListenConfig{Subscriber: def.Subscriber, Topic: def.Topic, MaxRow: def.MaxRow})
		r.listeners = append(r.listeners, w.listener)
		rt.connect(w.listener, w.ownedRoute)
	case def.Queue != nil:
		w.claimer = r.claimerOf(def)
		w.claimer.add(rt)
		rt.connect(w.claimer, w.ownedRoute)
	default:
		rd := r.readerOf(def)
		rd.add(rt)
		rt.connect(rd, w.ownedRoute)
	}
}

func (r *Router) keeperOf(store outbox.StateStore) *keeper {
	for _, k := range r.keepers {
		if k.store == store {
			return k
		}
	}
	k := newKeeper(KeeperConfig{Store: store, Log: r.log, Instance: r.cfg.Instance, Lease: r.cfg.Lease,
		SettleInterval: r.cfg.SettleInterval, DrainTimeout: r.cfg.DrainTimeout, AllDown: r.hopeless})
	r.keepers = append(r.keepers, k)
	return k
}

func (r *Router) readerOf(def Route) *reader {
	for _, rd := range r.readers {
		if rd.source == def.Source {
			return rd
		}
	}
	rd := newReader(def.Source, ReaderConfig{Poll: Polling(def.Poll), Patience: r.cfg.Lease, Budget: &r.budget, Log: r.log})
	r.readers = append(r.readers, rd)
	return rd
}

func (r *Router) claimerOf(def Route) *claimer {
	for _, c := range r.claimers {
		if c.queue == def.Queue {
			return c
		}
	}
	c := newClaimer(def.Queue, ClaimerConfig{Poll: Polling(def.Poll), Claims: Limits(def.Claims), Budget: &r.budget, Log: r.log, Patience: r.cfg.Lease,
		SettleInterval: r.cfg.SettleInterval, DrainTimeout: r.cfg.DrainTimeout})
	r.claimers = append(r.claimers, c)
	return c
}

// Ready is closed when the lanes are ours or another instance works them.
func (r *Router) Ready() <-chan struct{} { return r.ready }

// Wake lets whoever reads the source, an [outbox.Source] or an [outbox.Queue],
// look for rows at once. It never waits. Call it after the commit.
func (r *Router) Wake(source any) {
	for _, rd := range r.readers {
		if any(rd.source) == source {
			poke(rd.rest.told)
		}
	}
	for _, c := range r.claimers {
		if any(c.queue) == source {
			poke(c.rest.told)
		}
	}
}

// roomFreed tells all that read that there may be room again.
func (r *Router) roomFreed() {
	for _, rd := range r.readers {
		rd.RoomFreed()
	}
	for _, c := range r.claimers {
		c.RoomFreed()
	}
}

// hopeless returns why none of the routes can run; nil while some can.
func (r *Router) hopeless() error {
	var errs []error
	for _, k := range r.keepers {
		err := k.hopeless()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
