package ownership

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// between has f called between two rounds of acquiring lanes, by the goroutine that does that. False: there is none any more.
func (m *Manager) between(f func()) bool {
	done := make(chan struct{})
	select {
	case m.calls <- func() { f(); close(done) }:
		<-done
		return true
	case <-m.ended:
		return false
	}
}

// vacantPause is how often it is looked whether lanes that are being given up are.
const vacantPause = 5 * time.Millisecond

// Retire gives up the lanes of routes for good, as those of a paused route, and returns when they are released. False: the process stops before.
func (m *Manager) Retire(routes []*Route) bool {
	if !m.between(func() {
		for _, rt := range routes {
			rt.leaving = true
		}
	}) {
		return false
	}
	for _, rt := range routes {
		m.background(func() { m.quiesce(rt, m.beginQuiescing(rt, 0), m.drainFor) })
	}
	for _, rt := range routes {
		for !m.vacant(rt) {
			if !signal.Sleep(vacantPause, m.quit) {
				return false
			}
		}
	}
	return true
}

// vacant reports whether none of a route's lanes is worked, or still to be released: by [Manager.Retire], or because another instance takes it
// over, an operator has paused the route or the lane is lost.
func (m *Manager) vacant(rt *Route) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(rt.Lanes, func(l *lane.Lane) bool { return l.Session() != nil || m.quiescing[l] != nil })
}

// Swap has the manager own the lanes of other routes, made by it, in place of retired ones. It returns when it has tried to acquire them, or if the
// process stops.
func (m *Manager) Swap(retired, others []*Route) {
	if m.between(func() {
		m.routes.Replace(func(rt *Route) bool { return slices.Contains(retired, rt) }, others...)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, rt := range retired {
			delete(m.failures, rt)
		}
	}) {
		m.between(func() {}) // after a round
	}
}
