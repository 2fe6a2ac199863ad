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

// How often an instance looks for other instances, and for lanes.
const (
	// lookPause is the pause when everything is as it should be.
	lookPause = time.Second

	// AcquirePause is the pause while lanes are missing, or a route is paused.
	AcquirePause = 500 * time.Millisecond

	// handoverPause is the pause while lanes are missing because others are about
	// to hand them over: for handoverTime after an instance came or went.
	handoverPause = 50 * time.Millisecond
	handoverTime  = 3 * time.Second

	// lostPause is the pause after a look that failed. It does not grow while the
	// database is away: when it is back, every instance has to show within
	// deadPause that it lives, or others take its lanes.
	lostPause = 100 * time.Millisecond

	// deadPause is how long an instance that seems to be dead has to show that
	// it has only lost its connection.
	deadPause = 250 * time.Millisecond
)

// peers is what the goroutine that acquires knows of all instances.
type peers struct {
	seen     []adapters.Instance  // at the last look
	alive    map[string]bool      // at the last look
	shares   *assignment          // among those who were seen
	changed  time.Time            // when an instance came or went
	outage   logging.Outage       // of looks
	reported string               // what the log said last
	orphans  []adapters.LaneRef   // ours, with no session: to be released
	release  settling.CallTimeout // of a release of those
}

// AcquireLanes takes and gives up lanes until ctx ends. It returns an error only
// when no route of the process can run.
func (k *Manager) AcquireLanes(ctx context.Context, pause time.Duration) error {
	for {
		if !signal.Sleep(pause, ctx.Done()) {
			return nil
		}
		var err error
		if pause, err = k.AcquireAll(ctx); err != nil {
			return err
		}
	}
}

// AcquireAll is one round: it looks for other instances, hands over what is above our
// share and takes what is free below it. It returns the pause until the next.
func (k *Manager) AcquireAll(ctx context.Context) (time.Duration, error) {
	k.takeLocks(ctx)
	shares, again := k.look(ctx)
	if shares == nil { // without knowing the others nothing is taken
		return lostPause, k.allStopped()
	}
	k.releaseOrphans(ctx)
	if len(k.peers.orphans) > 0 {
		return AcquirePause, nil // what is taken anew must not be released then
	}
	for _, rt := range k.routes {
		k.handOver(rt, shares)
	}
	missing, paused, now := false, false, newRound()
	k.prepareRoutes(ctx, now, shares)
	for _, rt := range k.routes {
		if k.backingOff(rt) {
			missing = true
			continue
		}
		// A connection that has fallen silent must not keep us from all the rest.
		complete := false
		err := rt.acquiring.Call(ctx, func(ctx context.Context) (err error) {
			complete, err = k.acquire(ctx, now, rt, shares.share(k.instance, rt.Name))
			return err
		})
		switch {
		case ctx.Err() != nil:
			return lookPause, nil //nolint:nilerr // asked to stop: that is no failure
		case errors.Is(err, adapters.ErrPaused):
			k.noticePause(rt)
			paused = true
			continue
		case err != nil:
			k.fail(rt, err)
		}
		missing = missing || !complete
	}
	k.findOrphans(ctx)
	k.report(shares, missing)
	switch {
	case missing && time.Since(k.peers.changed) < handoverTime:
		again = min(again, handoverPause)
	case missing || paused:
		again = min(again, AcquirePause)
	}
	return again, k.allStopped()
}

// look finds the other instances and our share, and announces what we run; nil
// when that is not to be known now. Again is when to look the next time.
func (k *Manager) look(ctx context.Context) (shares *assignment, again time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, k.lease/2)
	defer cancel()
	all, err := k.Store.Instances(ctx)
	self := slices.IndexFunc(all, func(i adapters.Instance) bool { return i.ID == k.instance })
	if err == nil && self >= 0 && all[self].Alive {
		if runs := k.announcement(); !slices.Equal(all[self].Routes, runs) {
			if err = k.Store.Announce(ctx, k.instance, runs); err == nil {
				all[self].Routes = runs
			}
		}
	}
	k.peers.outage.Report(k.log, slog.LevelWarn, err, "cannot see the other instances in the state store, trying again; lanes stay as they are",
		"the other instances can be seen again")
	if err != nil || self < 0 || !all[self].Alive {
		signal.Send(k.renewNow) // others may take us for dead: what we took now they would take again
		return nil, 0
	}
	return k.peers.note(all), k.peers.again(all)
}

// note keeps which instances were seen, and returns what follows for each of them. One that was alive and is not, but has not left and
// has a lease, still counts as alive until the next look.
func (c *peers) note(all []adapters.Instance) *assignment {
	counted := slices.Clone(all)
	alive := map[string]bool{}
	for i, in := range all {
		alive[in.ID] = in.Alive
		counted[i].Alive = in.Alive || c.alive[in.ID] && in.Left > 0
	}
	same := slices.EqualFunc(counted, c.seen, func(a, b adapters.Instance) bool {
		return a.ID == b.ID && a.Alive == b.Alive && slices.Equal(a.Routes, b.Routes)
	})
	if !same {
		c.changed = time.Now()
	}
	if !same || c.shares == nil {
		c.shares = assign(counted)
	}
	c.seen, c.alive = counted, alive
	return c.shares
}

// again is when to look the next time: earlier when a lease ends before, or when
// an instance counts as alive that is not.
func (c *peers) again(all []adapters.Instance) time.Duration {
	pause := lookPause
	for i, in := range all {
		switch {
		case c.seen[i].Alive != in.Alive:
			pause = min(pause, deadPause)
		case in.Alive:
			pause = min(pause, in.Left+time.Millisecond)
		}
	}
	return pause
}

// announcement is what we say that we run.
func (k *Manager) announcement() []adapters.RunningRoute {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := []adapters.RunningRoute{}
	for _, rt := range k.routes {
		r := adapters.RunningRoute{Route: rt.Name, Unit: rt.Unit}
		if t := k.troubles[rt]; t != nil {
			r.Waits = t.err.Error()
		} else if rt.leader != nil {
			r.Waits = rt.leader.waits()
		}
		out = append(out, r)
	}
	return out
}

// report logs how many lanes we have, when that has changed.
func (k *Manager) report(shares *assignment, missing bool) {
	lanes, share, others := 0, 0, 0
	for _, rt := range k.routes {
		for _, s := range rt.Sessions() {
			lanes += len(s.Lane.Slots)
		}
		share += shares.share(k.instance, rt.Name)
	}
	for id := range shares.shares {
		if id != k.instance {
			others++
		}
	}
	var text string
	switch {
	case share == 0 && others == 0 && slices.ContainsFunc(k.routes, func(rt *Route) bool { return rt.leader != nil && !rt.leader.held.Load() }):
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
	if now := fmt.Sprint(text, lanes, others); now != k.peers.reported {
		k.peers.reported = now
		k.log.Info(text, "instance", k.instance, "lanes", lanes, "instances", others+1)
	}
}
