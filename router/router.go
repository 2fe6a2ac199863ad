package router

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// Router runs routes. Make one with [New], call [Router.Run] once.
type Router struct {
	cfg       Config
	log       *slog.Logger
	routes    []*route
	readers   []*reader
	listeners []*listener
	claimers  []*claimer
	keepers   []*keeper
	budget    budget
	pace      pace
	places    atomic.Uint64 // given to messages that entered lanes
	ready     chan struct{}
	begun     atomic.Bool
}

// New checks the routes and wires them; nothing runs and nothing is connected.
func New(cfg Config, routes []Route) (*Router, error) {
	cfg.setDefaults()
	r := &Router{cfg: cfg, log: cfg.Logger, ready: make(chan struct{})}
	r.budget = budget{limit: cfg.Memory, wake: r.roomFreed}
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

func (r *Router) add(def Route) {
	o := def.Destination.Ordering()
	if o.MaxRequests <= 0 {
		o.MaxRequests = outbox.DefaultMaxRequests
	}
	rt := &route{Route: def, logger: r.log, redact: r.redact, places: &r.places, pace: &r.pace, patience: r.cfg.Lease, leastPace: leastPace(o), limiter: handlers.NewLimiter(o.MaxRequests, !o.Static && !o.Pooled),
		acquiring: bound{usual: r.cfg.Lease}}
	rt.health = newHealth(rt)
	rt.poison = newPoison(rt)
	rt.share.budget = &r.budget
	for i, slots := range rt.laneSlots() {
		rt.lanes = append(rt.lanes, newLane(rt, i, slots))
	}
	r.routes = append(r.routes, rt)
	rt.keeper = r.keeperOf(def.State)
	rt.keeper.routes = append(rt.keeper.routes, rt)
	rt.settler, rt.lease = rt.keeper.settler, routeLease{rt.keeper, rt}
	if def.LeaderLock != nil {
		rt.leader = rt.keeper.leaderOf(def.LeaderLock)
		rt.leader.routes = append(rt.leader.routes, rt)
	}
	if def.Subscriber != nil {
		rt.listener = &listener{route: rt, wake: make(chan struct{}, 1)}
		r.listeners = append(r.listeners, rt.listener)
		rt.feeder = rt.listener
		return
	}
	if def.Queue != nil {
		rt.claimer = r.claimerOf(def)
		rt.feeder = rt.claimer
		rt.claimer.routes = append(rt.claimer.routes, rt)
		return
	}
	rt.reader = r.readerOf(def)
	rt.reader.routes = append(rt.reader.routes, rt)
	rt.feeder = rt.reader
}

func (r *Router) keeperOf(store outbox.StateStore) *keeper {
	for _, k := range r.keepers {
		if k.store == store {
			return k
		}
	}
	k := newKeeper(r, store)
	r.keepers = append(r.keepers, k)
	return k
}

func (r *Router) readerOf(def Route) *reader {
	for _, rd := range r.readers {
		if rd.source == def.Source {
			return rd
		}
	}
	rd := newReader(r, def.Source, def.Poll)
	r.readers = append(r.readers, rd)
	return rd
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

func (r *Router) redact(address string) string {
	if address == "" {
		return "(none)"
	}
	return r.cfg.Redact(address)
}
