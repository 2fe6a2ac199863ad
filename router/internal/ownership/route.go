package ownership

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// RouteConfig says where a route begins, and how it is owned.
type RouteConfig struct {
	Source adapters.Source // nil: the route has no cursors that mean anything
	Start  adapters.Start

	// Unit names the routes with which the route moves to another instance as a whole; empty: its lanes move one by one.
	Unit string

	Lock adapters.LeaderLock // has to be held to work the route; nil: none

	Group adapters.PartitionedSource // assigns the lanes to instances; nil: they are shared evenly
}

// Route is a route whose lanes are acquired and given up.
type Route struct {
	*lane.Route
	RouteConfig
	manager   *Manager
	leader    *leader                        // nil: no lock is needed to work it
	leaving   bool                           // no lanes of it are acquired any more; only the goroutine that acquires uses it
	table     adapters.Table                 // that it reads, as the acquired lanes found it; only the goroutine that acquires uses it
	Paused    atomic.Pointer[adapters.Pause] // nil: it is not
	Resumed   atomic.Pointer[time.Time]      // when that ended; nil: it did not
	Stopped   atomic.Pointer[string]         // why it cannot run; nil: it can
	acquiring settling.CallTimeout           // of a try to take lanes; only the goroutine that acquires uses it
}

var _ lane.Lease = (*Route)(nil)

// Make returns a route of the manager, whose lanes are acquired after [Manager.Add] or [Manager.Swap].
func (m *Manager) Make(rt *lane.Route, cfg RouteConfig) *Route {
	return &Route{Route: rt, RouteConfig: cfg, manager: m, acquiring: settling.CallTimeout{Usual: m.lease}}
}

// Add has the manager own the lanes of a route, before it begins.
func (m *Manager) Add(o *Route) {
	m.routes.Append(o)
	if o.Lock != nil {
		o.leader = m.leaderOf(o.Lock)
		o.leader.routes = append(o.leader.routes, o)
	}
}

// routeFailure says why a route cannot run here. Until it can, other instances do not count us, and our lanes of the route go to instances that
// can run it.
type routeFailure struct {
	err     error
	stopped bool // retries do not mend it: an operator has to act
	retry   time.Time
	tries   int
}

// stoppedError is an error that retries do not mend.
type stoppedError struct{ error }

func (e *stoppedError) Unwrap() error { return e.error }

// sourceError is an error of the route's source, which other instances may not have.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// backingOff reports whether the route cannot run here and is not to be tried now.
func (m *Manager) backingOff(rt *Route) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.failures[rt]
	return t != nil && time.Now().Before(t.retry)
}

// fail notes that lanes of the route could not be acquired. An error of the state store concerns all routes and is only logged.
func (m *Manager) fail(rt *Route, err error) {
	bad := errors.As(err, new(*stoppedError))
	if !bad && !errors.As(err, new(*sourceError)) {
		m.taking.Fail(rt.Log(), slog.LevelWarn, "cannot acquire lanes, trying again", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.failures[rt]
	if t == nil {
		t = &routeFailure{}
		m.failures[rt] = t
	}
	if t.err == nil || t.err.Error() != err.Error() {
		if bad {
			rt.Log().Error("the route is stopped", "error", err)
		} else {
			rt.Log().Warn("cannot acquire lanes, trying again", "error", err)
		}
	}
	t.err, t.stopped = err, bad
	t.retry = time.Now().Add(min(AcquirePause<<min(t.tries, 10), max(m.lease/4, AcquirePause)))
	t.tries++
	if bad {
		text := err.Error()
		rt.Stopped.Store(&text)
	}
}

// recovered forgets that a route could not run, or was paused.
func (m *Manager) recovered(rt *Route) {
	m.taking.End(m.log, "lanes can be acquired again")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures[rt] != nil {
		delete(m.failures, rt)
		rt.Stopped.Store(nil)
		rt.Log().Info("the route can run again")
	}
	if rt.Paused.Swap(nil) != nil {
		now := time.Now()
		rt.Resumed.Store(&now)
		rt.Log().Info("the route was resumed")
	}
}

// failing reports whether the route cannot run here.
func (m *Manager) failing(rt *Route) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures[rt] != nil
}

// retryRoute finds out whether a route that failed can run again. We have no share of it, so it is tried with one free lane; if other instances
// work all lanes it is enough that the source answers.
func (m *Manager) retryRoute(ctx context.Context, rt *Route) error {
	if want, _ := m.missing(rt, adapters.Slots); len(want) > 0 {
		states, err := m.Store.Acquire(ctx, m.instance, rt.Name, want, 1)
		if err != nil {
			return err
		}
		err = rt.prepare(ctx, newRound(), states)
		m.giveUp(ctx, states)
		if err != nil {
			return err
		}
	} else if err := rt.prepare(ctx, newRound(), nil); err != nil {
		return err
	}
	m.recovered(rt)
	return nil
}

// AllStopped returns the errors of the routes when none of them can run.
func (m *Manager) AllStopped() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, rt := range m.routes.All() {
		t := m.failures[rt]
		if t == nil || !t.stopped {
			return nil
		}
		errs = append(errs, t.err)
	}
	return errors.Join(errs...)
}
