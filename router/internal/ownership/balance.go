package ownership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// How often an instance reads which instances there are, and acquires lanes.
const (
	// roundPause is the pause when nothing is missing.
	roundPause = time.Second

	// AcquirePause is the pause while lanes are missing, or a route is paused.
	AcquirePause = 500 * time.Millisecond

	// handoverPause is the pause while lanes are missing because others are about to hand them over: for handoverTime after an instance came
	// or went.
	handoverPause = 50 * time.Millisecond
	handoverTime  = 3 * time.Second

	// lostPause is the pause after a failure. It does not grow while the database is away: when it is back, every instance has to show within
	// deadPause that it lives, or others take its lanes.
	lostPause = 100 * time.Millisecond

	// deadPause is how long an instance that seems to be dead has to show that it has only lost its connection.
	deadPause = 250 * time.Millisecond
)

// peers has what the goroutine that acquires knows of all instances.
type peers struct {
	seen     []adapters.Instance  // in the last round
	alive    map[string]bool      // in the last round
	shares   *assignment          // among them
	changed  time.Time            // when an instance came or went
	outage   logging.Outage       // of reading the instances
	reported string               // what the log said last
	orphans  []adapters.LaneRef   // ours, with no session: to be released
	release  settling.CallTimeout // of a release of those
	together settling.CallTimeout // of acquiring lanes of several routes at once
}

// AcquireLanes acquires and gives up lanes until ctx ends. It returns an error only if no route of the process can run.
func (m *Manager) AcquireLanes(ctx context.Context, pause time.Duration) error {
	defer close(m.ended)
	for {
		timer := signal.After(pause)
		select {
		case <-timer.C:
		case <-m.reassigned:
		case call := <-m.calls:
			call()
		case <-ctx.Done():
		}
		if timer.Stop(); ctx.Err() != nil {
			return nil
		}
		var err error
		if pause, err = m.AcquireAll(ctx); err != nil {
			return err
		}
	}
}

// AcquireAll is one round: it reads which instances there are, hands over lanes above our share and acquires free ones below it. It returns the
// pause until the next round.
func (m *Manager) AcquireAll(ctx context.Context) (time.Duration, error) {
	m.takeLocks(ctx)
	shares, again := m.seeInstances(ctx)
	if shares == nil { // without knowing the other instances nothing is acquired
		return lostPause, m.allStopped()
	}
	m.releaseOrphans(ctx)
	if len(m.peers.orphans) > 0 {
		return AcquirePause, nil // what is acquired again must not be released then
	}
	for _, rt := range m.routes.All() {
		m.handOver(rt, shares)
	}
	missing, paused, now := false, false, newRound()
	m.prepareRoutes(ctx, now, shares)
	m.takeTogether(ctx, now, shares)
	for _, rt := range m.routes.All() {
		if rt.leaving || m.backingOff(rt) {
			missing = missing || !rt.leaving
			continue
		}
		// A connection that does not answer must not keep us from the other routes.
		complete := false
		err := rt.acquiring.Call(ctx, func(ctx context.Context) (err error) {
			complete, err = m.acquire(ctx, now, rt, shares.share(m.instance, rt.Name))
			return err
		})
		switch {
		case ctx.Err() != nil:
			return roundPause, nil //nolint:nilerr // asked to stop: that is no failure
		case errors.Is(err, adapters.ErrPaused):
			m.noticePause(rt)
			paused = true
			continue
		case err != nil:
			m.fail(rt, err)
		}
		missing = missing || !complete
	}
	m.findOrphans(ctx)
	m.report(shares, missing)
	switch {
	case missing && time.Since(m.peers.changed) < handoverTime:
		again = min(again, handoverPause)
	case missing || paused:
		again = min(again, AcquirePause)
	}
	return again, m.allStopped()
}

// seeInstances reads the other instances and returns our share, and announces what we run; nil: that is not known now. Again is the pause until
// the next round.
func (m *Manager) seeInstances(ctx context.Context) (shares *assignment, again time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, m.lease/2)
	defer cancel()
	all, err := m.Store.Instances(ctx)
	self := slices.IndexFunc(all, func(i adapters.Instance) bool { return i.ID == m.instance })
	if err == nil && self >= 0 && all[self].Alive {
		if runs := m.announcement(); !slices.Equal(all[self].Routes, runs) {
			if err = m.Store.Announce(ctx, m.instance, runs); err == nil {
				all[self].Routes = runs
			}
		}
	}
	m.peers.outage.Report(m.log, slog.LevelWarn, err, "cannot see the other instances in the state store, trying again; lanes stay as they are",
		"the other instances can be seen again")
	if err != nil || self < 0 || !all[self].Alive {
		signal.Send(m.renewNow) // others may take us for dead, and would take what we acquire now
		return nil, 0
	}
	return m.peers.update(all), m.peers.again(all)
}

// update takes over which instances were seen, and returns the shares. An instance that was alive and is not, but has not left and
// has a lease, still counts as alive until the next round.
func (p *peers) update(all []adapters.Instance) *assignment {
	counted := slices.Clone(all)
	alive := map[string]bool{}
	for i, in := range all {
		alive[in.ID] = in.Alive
		counted[i].Alive = in.Alive || p.alive[in.ID] && in.Left > 0
	}
	same := slices.EqualFunc(counted, p.seen, func(a, b adapters.Instance) bool {
		return a.ID == b.ID && a.Alive == b.Alive && slices.Equal(a.Routes, b.Routes)
	})
	if !same {
		p.changed = time.Now()
	}
	if !same || p.shares == nil {
		p.shares = assign(counted)
	}
	p.seen, p.alive = counted, alive
	return p.shares
}

// again is the pause until the next round: shorter if a lease ends before, or if an instance counts as alive that is not.
func (p *peers) again(all []adapters.Instance) time.Duration {
	pause := roundPause
	for i, in := range all {
		switch {
		case p.seen[i].Alive != in.Alive:
			pause = min(pause, deadPause)
		case in.Alive:
			pause = min(pause, in.Left+time.Millisecond)
		}
	}
	return pause
}

// announcement returns the routes that we run.
func (m *Manager) announcement() []adapters.RunningRoute {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []adapters.RunningRoute{}
	for _, rt := range m.routes.All() {
		r := adapters.RunningRoute{Route: rt.Name, Unit: rt.Unit}
		if t := m.failures[rt]; t != nil {
			r.Waits = t.err.Error()
		} else if rt.leader != nil {
			r.Waits = rt.leader.waits()
		}
		out = append(out, r)
	}
	return out
}

// report logs how many lanes we have, if that has changed.
func (m *Manager) report(shares *assignment, missing bool) {
	lanes, share, others := 0, 0, 0
	for _, rt := range m.routes.All() {
		for _, s := range rt.Sessions() {
			lanes += len(s.Lane.Slots)
		}
		if rt.Group != nil {
			share += len(rt.assigned())
			continue
		}
		share += shares.share(m.instance, rt.Name)
	}
	for id := range shares.shares {
		if id != m.instance {
			others++
		}
	}
	var text string
	switch {
	case share == 0 && slices.ContainsFunc(m.routes.All(), func(rt *Route) bool { return rt.Group != nil }):
		return // the group assigns nothing to us, or has not begun
	case share == 0 && others == 0 && slices.ContainsFunc(m.routes.All(), func(rt *Route) bool { return rt.leader != nil && !rt.leader.held.Load() }):
		return // the log says who leads
	case share == 0 && others > 0:
		text = "standing by: other instances work the lanes; they are taken over when one of them stops"
	case missing || lanes != share:
		return // on the way
	case others == 0:
		text = "acquired all lanes"
	default:
		text = "acquired a share of the lanes"
	}
	if now := fmt.Sprint(text, lanes, others); now != m.peers.reported {
		m.peers.reported = now
		m.log.Info(text, "instance", m.instance, "lanes", lanes, "instances", others+1)
	}
}
