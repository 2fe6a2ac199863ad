package ownership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// applyPauses carries out what operators have asked of a route since its counter last
// moved: pauses of the route or of addresses, and their end. Every instance quiesces
// its own lanes of a paused route.
func (m *Manager) applyPauses(rt *Route) {
	m.background(func() {
		for {
			var pauses []adapters.Pause
			if !m.retryUntilDone(rt, "read the pauses", func(ctx context.Context) (err error) {
				pauses, err = m.Store.Pauses(ctx, rt.Name)
				return err
			}) {
				return
			}
			rt.ApplyPauses(pauses)
			i := slices.IndexFunc(pauses, func(p adapters.Pause) bool { return p.OfRoute() })
			if i < 0 || !m.pauseRoute(rt, pauses[i]) {
				return
			}
			// Sessions that began meanwhile, with lanes that were just being
			// acquired, come next.
		}
	})
}

// pauseRoute ends the route's sessions because it was paused; it reports whether there
// were any.
func (m *Manager) pauseRoute(rt *Route, p adapters.Pause) bool {
	rt.Paused.Store(&p)
	sessions := m.beginQuiescing(rt)
	if len(sessions) == 0 {
		return false
	}
	rt.Log().Info("the route is paused: finishing messages in flight")
	if !m.quiesce(rt, sessions, m.drainFor) {
		return false
	}
	rt.Log().Info("the route stays paused; to resume it: outrider resume " + rt.Name)
	return true
}

// retryUntilDone does something with the state store until it succeeds; false when the
// process stops before.
func (m *Manager) retryUntilDone(rt *Route, what string, do func(context.Context) error) bool {
	var failing logging.Outage
	for {
		ctx, cancel := context.WithTimeout(context.Background(), m.lease)
		err := do(ctx)
		cancel()
		if err == nil {
			return true
		}
		select {
		case <-m.quit:
			return false
		default:
		}
		failing.Fail(rt.Log(), slog.LevelWarn, "cannot "+what+", trying again", err)
		signal.Sleep(lane.ShortDelay, m.quit)
	}
}

// noticePause notes that Acquire refused a route because it is paused.
func (m *Manager) noticePause(rt *Route) {
	if rt.Paused.CompareAndSwap(nil, &adapters.Pause{Route: rt.Name}) {
		rt.Log().Info("the route is paused; to resume it: outrider resume " + rt.Name)
	}
}

// RememberGone implements [lane.Lease].
func (r *Route) RememberGone(address string, cause error) {
	m := r.manager
	m.background(func() { // during a drain it is not: it is learnt again after the next start
		p := adapters.Pause{Route: r.Name, Address: address, Reason: fmt.Sprint(cause), By: m.instance}
		if m.retryUntilDone(r, "write down that an address is gone", func(ctx context.Context) error {
			_, err := m.Store.Pause(ctx, p)
			return err
		}) {
			r.Health.Written(address)
		}
	})
}
