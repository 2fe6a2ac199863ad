// Package ownership decides which lanes are ours: leases, shares among instances, hand-over, pauses and leaders' locks. Its [Manager] starts and
// stops sessions.
package ownership

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/cow"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Manager has our lanes in one state store: it announces the instance, renews its lease, acquires lanes without an owner, and starts and ends
// sessions.
type Manager struct {
	Store      adapters.StateStore
	Settler    *settling.Settler
	drainFor   time.Duration                                               // see Config
	allStopped func() error                                                // see Config
	before     func(ctx context.Context, routes []string) map[string]error // see Config
	log        *slog.Logger
	instance   string
	lease      time.Duration
	routes     cow.List[*Route]

	leaders []*leader

	epoch    time.Time     // base of until: monotonic, it continues while we are frozen
	until    atomic.Int64  // nanoseconds after epoch at which the lease ends
	renewNow chan struct{} // the lease is to be renewed at once

	reassigned chan struct{} // a group has given us other lanes
	calls      chan func()   // see between
	ended      chan struct{} // closed when no lanes are acquired any more

	renewing, taking, releasing, rereading logging.Outage // of renewals, of acquiring lanes, of giving back stray ones, of reading after commands

	peers   peers                         // only the goroutine that acquires uses it
	doubted map[adapters.Source]time.Time // since when they do not say whether cursors are valid that are to be written; only the settler uses it

	mu        sync.Mutex
	quiescing map[*lane.Lane]*lane.Session // that end: no longer in their lanes, perhaps, but what they concluded is still to be written
	unclaimed []adapters.LaneRef           // ours in the state store, and had no session at the last renewal
	failures  map[*Route]*routeFailure     // routes that cannot run
	lost      []*lane.Session              // and not logged; nil: none is
	draining  bool
	drained   []*lane.Session // when draining: no longer in their lanes, but what they concluded is still to be written

	quit chan struct{}  // closed when draining begins
	wg   sync.WaitGroup // sessions being ended
}

// Config of a manager.
type Config struct {
	Store          adapters.StateStore
	Log            *slog.Logger
	Instance       string
	Lease          time.Duration
	SettleInterval time.Duration
	DrainTimeout   time.Duration // bounds the wait for messages in flight when lanes are given up
	AllStopped     func() error  // why no route of the process can run; nil: some can

	// Before is called with routes whose lanes are to be acquired. It returns the errors of those that cannot be. nil: there is nothing to do.
	Before func(ctx context.Context, routes []string) map[string]error
}

// New returns the manager of a state store; [Manager.Add] gives it routes.
func New(cfg Config) *Manager {
	m := &Manager{Store: cfg.Store, log: cfg.Log, instance: cfg.Instance, lease: cfg.Lease, drainFor: cfg.DrainTimeout, allStopped: cfg.AllStopped, before: cfg.Before,
		Settler: settling.New(cfg.Store, cfg.Log, cfg.SettleInterval, cfg.Lease),
		epoch:   time.Now(), renewNow: make(chan struct{}, 1), reassigned: make(chan struct{}, 1), calls: make(chan func()), ended: make(chan struct{}), quit: make(chan struct{}),
		doubted: map[adapters.Source]time.Time{}, quiescing: map[*lane.Lane]*lane.Session{}, failures: map[*Route]*routeFailure{}, peers: peers{release: settling.CallTimeout{Usual: cfg.Lease}, together: settling.CallTimeout{Usual: cfg.Lease}}}
	m.Settler.Batches, m.Settler.Fenced = m.batches, func(b settling.Batch) { m.lose(b.(*lane.Session)) } //nolint:forcetypeassert // a manager's batches are sessions
	m.Settler.Screen = m.screen
	return m
}

// MaySend implements [lane.Lease]. A leader's lock is necessary, too.
func (r *Route) MaySend() bool {
	return r.manager.permit() && (r.leader == nil || r.leader.held.Load())
}

// permit reports whether enough of the lease is left to send.
func (m *Manager) permit() bool {
	return int64(time.Since(m.epoch))+int64(m.lease/4) < m.until.Load()
}

// StillOwned implements [lane.Lease] by a renewal. Only the heartbeat extends the time for sending, because it first ends the sessions of lost
// lanes. As there, the query is never cancelled.
func (r *Route) StillOwned(ctx context.Context, s *lane.Session) (bool, error) {
	m := r.manager
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.lease/2)
	defer cancel()
	owned, err := m.Store.Renew(ctx, m.instance, m.lease)
	if err != nil {
		return false, err
	}
	for _, ref := range s.Lane.Rows() {
		if _, ours := owned[ref]; !ours {
			return false, nil
		}
	}
	return !s.Lost(), nil
}

// Join announces the instance.
func (m *Manager) Join(ctx context.Context) error {
	if err := m.Store.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare the state tables: %w", err)
	}
	began := time.Since(m.epoch)
	if err := m.Store.Join(ctx, m.instance, m.lease); err != nil {
		return fmt.Errorf("join as instance %s: %w", m.instance, err)
	}
	m.until.Store(int64(began + m.lease))
	return m.joinGroups()
}

// noticeWithin bounds the time until an operator's command is noticed, however long the lease is.
const noticeWithin = 1500 * time.Millisecond

// KeepLease renews the lease until ctx ends, which is after the drain.
func (m *Manager) KeepLease(ctx context.Context) {
	renew := signal.Every(min(m.lease/4, noticeWithin))
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
		case <-m.renewNow:
		}
		// A renewal is never cancelled: that could close the connection which shows that we live.
		m.renew(context.WithoutCancel(ctx))
	}
}

// RenewNow renews the lease at once, which notices operators' commands.
func (m *Manager) RenewNow() { signal.Send(m.renewNow) }

// renew extends the lease, ends the sessions of lanes that are no longer ours and has sessions notice operators' commands. Lost lanes are stopped
// before other instances may send again: after a freeze nothing may be sent for them.
func (m *Manager) renew(ctx context.Context) {
	began := time.Since(m.epoch)
	ctx, cancel := context.WithTimeout(ctx, m.lease/2)
	defer cancel()
	// Lanes that are taken meanwhile are not in the answer, and not lost.
	before := m.working()
	durable := make([][]int64, len(before)) // before the store is read, which may be before a settle
	for i, s := range before {
		durable[i] = s.Confirmed()
	}
	owned, err := m.Store.Renew(ctx, m.instance, m.lease)
	if err != nil {
		m.renewing.Fail(m.log, slog.LevelWarn, "the lease cannot be renewed, trying again", err,
			"left", (time.Duration(m.until.Load()) - time.Since(m.epoch)).Round(time.Millisecond))
		return
	}
	m.renewing.End(m.log, "the lease is renewed again")
	commanded, worked := map[*Route]bool{}, 0
	for i, s := range before {
		for j, str := range s.Streams() {
			mark, ours := owned[adapters.LaneRef{Route: s.Route.Name, Slot: str.Slot}]
			if ours {
				worked++
			}
			if !ours || mark.Epoch != str.Epoch || mark.Revision < durable[i][j] {
				m.lose(s)
				break
			}
			if m.notice(s, str, mark.Commands) {
				commanded[s.Route.Lease.(*Route)] = true //nolint:forcetypeassert // a manager's sessions are of its routes
			}
		}
	}
	var unclaimed []adapters.LaneRef
	if worked < len(owned) {
		unclaimed = notWorked(slices.Collect(maps.Keys(owned)), before)
	}
	m.mu.Lock()
	m.unclaimed = unclaimed
	m.mu.Unlock()
	m.until.Store(int64(began + m.lease))
	for _, rt := range m.routes.All() {
		rt.Kick() // messages may have been refused while little of the lease was left
	}
	for rt := range commanded {
		m.applyPauses(rt)
	}
}

// notice has a session read its parked groups again after a command; it reports whether there was one.
func (m *Manager) notice(s *lane.Session, str *lane.Stream, commands int64) bool {
	known := str.Commands
	str.Commands = commands
	if known == commands {
		return false
	}
	m.background(func() { // not on the heartbeat: it takes as long as there is to settle
		for s.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(s.Context(), m.lease) // the lane may stop meanwhile
			err := s.Reload(ctx)
			cancel()
			if err == nil || s.Context().Err() != nil {
				m.rereading.End(m.log, "")
				return
			}
			m.rereading.Fail(m.log, slog.LevelWarn, "cannot read the parked groups after a command, trying again", err, "lane", s.Lane.Name)
			signal.Sleep(lane.ShortDelay, s.Context().Done())
		}
	})
	return true
}

// Lost implements [lane.Lease].
func (r *Route) Lost(s *lane.Session) { r.manager.lose(s) }

// lose ends a session that has lost a cursor row to another instance, or whose cursor row is not as it was settled because the state store was
// restored.
func (m *Manager) lose(s *lane.Session) {
	if !s.Lose() {
		return
	}
	m.mu.Lock()
	if m.lost == nil && !m.draining {
		m.wg.Go(m.tellLosses)
	}
	m.lost = append(m.lost, s)
	m.mu.Unlock()
	m.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.drainFor)
		defer cancel()
		s.Stop(ctx)
	})
}

// lossesTogether is how long lost lanes are gathered: a failover or a freeze loses those of all routes.
const lossesTogether = 100 * time.Millisecond

// tellLosses logs the lanes that are lost about now, in a line per route.
func (m *Manager) tellLosses() {
	signal.Sleep(lossesTogether, m.quit)
	m.mu.Lock()
	lost := m.lost
	m.lost = nil
	m.mu.Unlock()
	for _, rt := range m.routes.All() {
		var names []string
		for _, s := range lost {
			if s.Route == rt.Route {
				names = append(names, s.Lane.Name)
			}
		}
		if len(names) > 0 {
			m.log.Warn("lanes are no longer ours: another instance took them, an operator moved their cursors, or the state store was restored; "+
				"messages in flight are released", "route", rt.Name, "lanes", len(names), "first", slices.Min(names))
		}
	}
}

// background runs f on a goroutine for which a drain waits. During a drain it does nothing: the drain ends all sessions.
func (m *Manager) background(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.draining {
		m.wg.Go(f)
	}
}

// Leave releases what is ours, so that another instance takes over at once.
func (m *Manager) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), m.lease)
	defer cancel()
	failpoint.Hit(failpoint.Release)
	if err := m.Store.Leave(ctx, m.instance); err != nil {
		m.log.Warn("the lanes could not be released; another instance takes them when the lease ends",
			"lease", m.lease, "error", err)
	}
	failpoint.Hit(failpoint.Released)
	m.leaveGroups()
	for _, l := range m.leaders {
		l.unlock() // last: the next holder of the lock finds the lanes released
	}
}
