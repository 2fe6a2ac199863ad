package ownership

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// leader holds a lock outside of the state store while this instance works the routes that need it. Without the lock the instance counts for
// none of them, so the holder works them all; when the lock is lost they stop at once.
type leader struct {
	manager *Manager
	lock    adapters.LeaderLock
	routes  []*Route

	held  atomic.Bool
	tried bool // the goroutine that acquires uses these two
	error string

	watching sync.WaitGroup
}

// elsewhere says why a route waits whose lock another process holds.
const elsewhere = "standing by: another process holds the "

func (m *Manager) leaderOf(lock adapters.LeaderLock) *leader {
	for _, l := range m.leaders {
		if l.lock == lock {
			return l
		}
	}
	l := &leader{manager: m, lock: lock}
	m.leaders = append(m.leaders, l)
	return l
}

// waits says why routes of the leader are not worked here; empty: they are.
func (l *leader) waits() string {
	switch {
	case l.held.Load():
		return ""
	case l.error != "":
		return l.error
	}
	return elsewhere + l.lock.String()
}

// takeLocks tries to take the locks that we do not hold. A leader releases its lock if none of its routes can run here.
func (m *Manager) takeLocks(ctx context.Context) {
	for _, l := range m.leaders {
		able := slices.ContainsFunc(l.routes, func(rt *Route) bool { return !m.backingOff(rt) })
		if l.held.Load() && !able {
			l.unlock()
		}
		if l.held.Load() || !able {
			continue
		}
		trying, cancel := context.WithTimeout(ctx, m.lease/2)
		lost, err := l.lock.TryLock(trying)
		cancel()
		if ctx.Err() == nil {
			l.report(lost != nil, err)
		}
		if lost != nil {
			l.held.Store(true)
			l.watching.Go(func() {
				<-lost
				l.lockLost()
			})
		}
	}
}

// report logs the result of a try if it has changed.
func (l *leader) report(held bool, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	log := l.routes[0].Log().With("lock", l.lock.String())
	switch {
	case held:
		log.Info("leading: acquired the lock")
	case l.tried && text == l.error:
	case err != nil:
		log.Warn("the lock of the leader cannot be taken, trying again", "error", err)
	default:
		log.Info("standing by: another process holds the lock of the leader; its routes are taken over when it gives it up")
	}
	l.tried, l.error = !held, text
}

// lockLost stops the leader's routes at once. Deliveries in flight are cancelled; finished ones are settled.
func (l *leader) lockLost() {
	l.held.Store(false)
	for _, rt := range l.routes {
		sessions := l.manager.beginQuiescing(rt, 0) // none at the end, when the lanes were released before
		if len(sessions) == 0 {
			continue
		}
		rt.Log().Warn("the lock of the leader was lost: messages in flight are released", "lock", l.lock.String())
		l.manager.background(func() { l.manager.quiesce(rt, sessions, time.Nanosecond) })
	}
}

// unlock gives the lock up, if it is held.
func (l *leader) unlock() {
	l.lock.Unlock()
	l.watching.Wait()
}
