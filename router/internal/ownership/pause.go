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

// applyPauses carries out operators' pauses of a route or of addresses, and their end, after its counter has moved. Every instance quiesces its
// own lanes of a paused route.
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
			// Next, sessions that began meanwhile.
		}
	})
}

// pauseRoute ends the sessions of a paused route; it reports whether there were any.
func (m *Manager) pauseRoute(rt *Route, p adapters.Pause) bool {
	rt.Paused.Store(&p)
	sessions := m.beginQuiescing(rt, 0)
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

// retryUntilDone calls do until it succeeds; false if the process stops before.
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
	m.background(func() { // not during a drain: the next start will find it out again
		p := adapters.Pause{Route: r.Name, Address: address, Reason: fmt.Sprint(cause), By: m.instance}
		if m.retryUntilDone(r, "write down that an address is gone", func(ctx context.Context) error {
			_, err := m.Store.Pause(ctx, p)
			return err
		}) {
			r.Health.Written(address)
		}
	})
}
