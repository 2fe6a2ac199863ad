package reading

import (
	"slices"

	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/polling"
)

// Add has the reader read for a route, at a pace of its own if it has one, which it returns.
func (r *Reader) Add(rt *lane.Route, pace polling.Config) *polling.RoutePoll {
	p := paced{Route: rt}
	if pace != (polling.Config{}) {
		p.pace = &polling.RoutePoll{Config: pace}
	}
	r.routes.Append(p)
	return p.pace
}

// Remove has the reader no longer read for routes, whose lanes have no sessions.
func (r *Reader) Remove(routes []*lane.Route) {
	r.routes.Replace(func(p paced) bool { return slices.Contains(routes, p.Route) })
}

// First is the name of one of the routes; empty: there is none.
func (r *Reader) First() string {
	for _, rt := range r.routes.All() {
		return rt.Name
	}
	return ""
}

// paced is a route with its own pace; nil: it is read at each poll.
type paced struct {
	*lane.Route
	pace *polling.RoutePoll
}

// resetPaces has all routes read at once.
func (r *Reader) resetPaces() {
	for _, p := range r.routes.All() {
		if p.pace != nil {
			p.pace.Reset()
		}
	}
}
