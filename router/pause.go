package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// quiet is what a keeper knows of routes that are paused or stopped.
type quiet struct {
	// resting are sessions that end because their route was paused: no longer
	// in their lanes, perhaps, but what they concluded is still to be written.
	resting map[*route][]*session
	again   map[*route]bool // a pause was noticed meanwhile: there may be more of them

	failed   map[*route]error     // routes that cannot run; an operator has to act
	retry    map[*route]time.Time // when those are tried again
	draining bool
	quit     chan struct{} // closed when draining begins
}

func newQuiet() quiet {
	return quiet{resting: map[*route][]*session{}, again: map[*route]bool{}, failed: map[*route]error{}, retry: map[*route]time.Time{},
		quit: make(chan struct{})}
}

// obey carries out what operators have asked of a route since its counter last
// moved: pauses of the route or of addresses, and their end.
func (k *keeper) obey(rt *route) {
	k.background(func() {
		var pauses []outbox.Pause
		if !k.insist(rt, "read the pauses", func(ctx context.Context) (err error) {
			pauses, err = k.store.Pauses(ctx, rt.Name)
			return err
		}) {
			return
		}
		k.applyAddresses(rt, pauses)
		for _, p := range pauses {
			if p.Address == "" {
				rt.paused.Store(&p)
				k.rest(rt)
			}
		}
	})
}

// insist does something with the state store until it succeeds; false when the
// process stops before.
func (k *keeper) insist(rt *route, what string, do func(context.Context) error) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), k.lease)
		err := do(ctx)
		cancel()
		if err == nil {
			return true
		}
		select {
		case <-k.quit:
			return false
		default:
		}
		rt.log().Warn("cannot "+what+", trying again", "error", err)
		pause := after(shortDelay)
		select {
		case <-pause.C:
		case <-k.quit:
		}
		pause.stop()
	}
}

// rest ends the route's sessions as a drain does: reading stops, what is being
// sent is finished, everything is settled, then the lanes are released. Until
// then they are not taken again, not even by ourselves: that would fence what
// is still to be settled. Sessions that began meanwhile, with lanes that were
// just being acquired, come next.
func (k *keeper) rest(rt *route) {
	for sessions := k.beginRest(rt); len(sessions) > 0; sessions = k.endRest(rt) {
		k.bringToRest(rt, sessions)
	}
}

func (k *keeper) bringToRest(rt *route, sessions []*session) {
	rt.log().Info("the route is paused: finishing what is under way")
	stopping, cancel := context.WithTimeout(context.Background(), k.router.cfg.DrainTimeout)
	defer cancel()
	var ending sync.WaitGroup
	for _, s := range sessions {
		ending.Go(func() { s.stop(stopping) })
	}
	ending.Wait()
	settler := k.router.settlers[k.store]
	if !k.insist(rt, "write the last progress of a paused route", func(ctx context.Context) error {
		return settler.flush(ctx, everything)
	}) {
		return // the drain writes it
	}
	if rt.claimer != nil && !k.insist(rt, "give back what a paused route had claimed", func(ctx context.Context) error {
		return rt.claimer.settler.flush(ctx, concluded)
	}) {
		return
	}
	var lanes []outbox.LaneRef
	for _, s := range sessions {
		for _, slot := range s.lane.slots {
			lanes = append(lanes, outbox.LaneRef{Route: rt.Name, Slot: slot})
		}
	}
	if k.insist(rt, "release the lanes of a paused route", func(ctx context.Context) error {
		return k.store.Release(ctx, k.instance, lanes)
	}) {
		rt.log().Info("the route rests; to go on: outrider resume " + rt.Name)
	}
}

// beginRest takes the route's sessions into its rest; none when there is
// nothing to do, or when somebody else does it.
func (k *keeper) beginRest(rt *route) []*session {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resting[rt] != nil {
		k.again[rt] = true
		return nil
	}
	return k.restNow(rt)
}

// endRest ends a rest. It returns the sessions of the next one, if a pause was
// noticed meanwhile.
func (k *keeper) endRest(rt *route) []*session {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.resting, rt)
	again := k.again[rt]
	delete(k.again, rt)
	if !again {
		return nil
	}
	return k.restNow(rt)
}

// restNow is beginRest without the look for others. Call with the mutex held.
func (k *keeper) restNow(rt *route) []*session {
	sessions := rt.sessions()
	if k.draining || len(sessions) == 0 {
		return nil
	}
	k.resting[rt] = sessions
	return sessions
}

// drain returns the sessions to be stopped; from now on those and the resting
// ones are what is settled.
func (k *keeper) drain() []*session {
	k.mu.Lock()
	defer k.mu.Unlock()
	working := k.working()
	all := slices.Clone(working)
	for _, resting := range k.resting {
		for _, s := range resting {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	if !k.draining {
		k.draining = true
		close(k.quit)
	}
	k.ended.Store(&ended{all})
	return working
}

// sessions returns all sessions whose progress is to be written.
func (k *keeper) sessions() []*session {
	if e := k.ended.Load(); e != nil {
		return e.sessions
	}
	out := k.working()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, resting := range k.resting {
		for _, s := range resting {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// working returns the sessions that are in their lanes.
func (k *keeper) working() []*session {
	var out []*session
	for _, rt := range k.routes {
		out = append(out, rt.sessions()...)
	}
	return out
}

// unwell is why lanes of the route are not to be taken now.
func (k *keeper) unwell(rt *route) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resting[rt] != nil || k.failed[rt] != nil && time.Now().Before(k.retry[rt])
}

// fail notes that a route cannot run. It is tried again now and then: an
// operator may have mended it.
func (k *keeper) fail(rt *route, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.failed[rt]; known == nil || known.Error() != err.Error() {
		rt.log().Error("the route is stopped", "error", err)
	}
	k.failed[rt], k.retry[rt] = err, time.Now().Add(k.lease/4)
	text := err.Error()
	rt.stopped.Store(&text)
}

// mended forgets that a route could not run, or was paused.
func (k *keeper) mended(rt *route) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed[rt] != nil {
		delete(k.failed, rt)
		rt.stopped.Store(nil)
		rt.log().Info("the route can run again")
	}
	if rt.paused.Swap(nil) != nil {
		rt.log().Info("the route was resumed")
	}
}

// hopeless returns the errors of the routes when none of them can run.
func (k *keeper) hopeless() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.failed) < len(k.routes) {
		return nil
	}
	var errs []error
	for _, err := range k.failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// noticePause notes that Acquire refused a route because it is paused.
func (k *keeper) noticePause(rt *route) {
	if rt.paused.CompareAndSwap(nil, &outbox.Pause{Route: rt.Name}) {
		rt.log().Info("the route is paused; to go on: outrider resume " + rt.Name)
	}
}

// applyAddresses tells the route which of its addresses are paused.
func (k *keeper) applyAddresses(rt *route, pauses []outbox.Pause) {
	again := rt.health.apply(pauses)
	if again == nil {
		return
	}
	followUp{rerun: again, back: rt}.run()
}

// keepGone writes down that an address is gone, so that no other owner uses it
// before an operator has resumed it.
func (k *keeper) keepGone(rt *route, address string, cause error) {
	k.background(func() { // during a drain it is not: it is learnt again after the next start
		p := outbox.Pause{Route: rt.Name, Address: address, Reason: fmt.Sprint(cause), By: k.instance}
		if k.insist(rt, "write down that an address is gone", func(ctx context.Context) error {
			_, err := k.store.Pause(ctx, p)
			return err
		}) {
			rt.health.written(address)
		}
	})
}
