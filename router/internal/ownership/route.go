package ownership

import (
	"slices"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// RouteConfig says where a route begins, and how it is owned.
type RouteConfig struct {
	Source adapters.Source // nil: the route has no cursors that mean anything
	Start  adapters.Start

	// Unit is what the route moves with when it goes to another instance as a whole;
	// empty: its lanes go one by one.
	Unit string

	Lock adapters.LeaderLock // has to be held to work the route; nil: none
}

// Route is a route whose lanes are taken and given up.
type Route struct {
	*lane.Route
	RouteConfig
	manager   *Manager
	leader    *leader                        // nil: no lock is needed to work it
	table     adapters.Table                 // that it reads, as the acquired lanes found it; only the goroutine that acquires uses it
	Paused    atomic.Pointer[adapters.Pause] // nil: it is not
	Stopped   atomic.Pointer[string]         // why it cannot run; nil: it can
	acquiring settling.CallTimeout           // of a try to take lanes; only the goroutine that acquires uses it
}

var _ lane.Lease = (*Route)(nil)

// Add has the manager own the lanes of a route.
func (m *Manager) Add(rt *lane.Route, cfg RouteConfig) *Route {
	o := &Route{Route: rt, RouteConfig: cfg, manager: m, acquiring: settling.CallTimeout{Usual: m.lease}}
	m.routes = append(m.routes, o)
	if cfg.Lock != nil {
		o.leader = m.leaderOf(cfg.Lock)
		o.leader.routes = append(o.leader.routes, o)
	}
	return o
}

// of returns the route that a lane belongs to.
func (m *Manager) of(rt *lane.Route) *Route {
	i := slices.IndexFunc(m.routes, func(o *Route) bool { return o.Route == rt })
	return m.routes[i]
}
