package router

import (
	"slices"
	"sync/atomic"

	"github.com/outriderhq/outrider/outbox"
)

// RouteConfig says where a route begins, and how it is owned.
type RouteConfig struct {
	Source outbox.Source // nil: the route has no cursors that mean anything
	Start  outbox.Start

	// Unit is what the route moves with when it goes to another instance as a whole;
	// empty: its lanes go one by one.
	Unit string

	Lock outbox.LeaderLock // has to be held to work the route; nil: none
}

// ownedRoute is a route whose lanes are taken and given up.
type ownedRoute struct {
	*route
	RouteConfig
	keeper    *keeper
	leader    *leader                      // nil: no lock is needed to work it
	table     outbox.Table                 // that it reads, as the acquired lanes found it; only the goroutine that acquires uses it
	paused    atomic.Pointer[outbox.Pause] // nil: it is not
	stopped   atomic.Pointer[string]       // why it cannot run; nil: it can
	acquiring bound                        // of a try to take lanes; only the goroutine that acquires uses it
}

var _ Lease = (*ownedRoute)(nil)

// add has the keeper own the lanes of a route.
func (k *keeper) add(rt *route, cfg RouteConfig) *ownedRoute {
	o := &ownedRoute{route: rt, RouteConfig: cfg, keeper: k, acquiring: bound{usual: k.lease}}
	k.routes = append(k.routes, o)
	if cfg.Lock != nil {
		o.leader = k.leaderOf(cfg.Lock)
		o.leader.routes = append(o.leader.routes, o)
	}
	return o
}

// of returns the route that a lane belongs to.
func (k *keeper) of(rt *route) *ownedRoute {
	i := slices.IndexFunc(k.routes, func(o *ownedRoute) bool { return o.route == rt })
	return k.routes[i]
}
