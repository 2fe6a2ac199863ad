package router

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// deafSource and deafState do not get an answer for a while: a connection on
// which nothing comes any more and that nobody closes.
type deafSource struct {
	*memSource
	deaf atomic.Int32 // so many calls
}

func (d *deafSource) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	if d.deaf.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.memSource.Fetch(ctx, reads, take)
}

type deafState struct {
	*memState
	deaf atomic.Int32
}

func (d *deafState) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	if d.deaf.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.memState.Settle(ctx, all)
}

func TestG1_G2_G3_ConnectionsThatFallSilent(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		source, state := &deafSource{memSource: r.source}, &deafState{memState: r.state}
		r.config.Lease = 10 * time.Second
		r.start(r.route(func(rt *Route) { rt.Source, rt.State, rt.Window = source, state, 4 }))
		r.fill(2, 5)
		r.await(10)
		for range 2 {
			source.deaf.Store(2)
			state.deaf.Store(2)
			began, before := time.Now(), r.dest.count()
			r.fillFrom(2, before/2, before/2+10)
			r.await(before + 20)
			if took := time.Since(began); took > 90*time.Second { // twice 10 s and 20 s, and no longer for having been longer before
				t.Errorf("it went on after %v", took)
			}
		}
		r.stop()
		r.checkOrdered(2, 25)
	})
}

// silentState does not get the answers to some of its queries.
type silentState struct {
	*memState
	acquires, looks, releases atomic.Int32 // so many calls
}

// unanswered waits for an answer that does not come, if this is such a call.
func unanswered(ctx context.Context, calls *atomic.Int32) error {
	if calls.Add(-1) >= 0 {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *silentState) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	if route == "orders" {
		if err := unanswered(ctx, &s.acquires); err != nil {
			return nil, err
		}
	}
	return s.memState.Acquire(ctx, instance, route, slots, most)
}

func (s *silentState) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	if err := unanswered(ctx, &s.looks); err != nil {
		return nil, err
	}
	return s.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
}

func (s *silentState) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	if err := unanswered(ctx, &s.releases); err != nil {
		return err
	}
	return s.memState.Release(ctx, instance, lanes)
}

// Taking lanes of a route goes on after answers that never came, and lanes of
// other routes are taken meanwhile.
func TestG1_AcquiresThatGetNoAnswer(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		state := &silentState{memState: r.state}
		r.config.DrainTimeout = time.Hour
		r.fill(2, 5)
		bills := &receiver{ordering: group}
		state.acquires.Store(3)
		r.start(r.route(func(rt *Route) { rt.State = state }),
			r.route(func(rt *Route) { rt.State, rt.Name, rt.Destination = state, "bills", bills }))
		r.until("the other route delivers", func() bool { return bills.count() == 10 })
		if state.acquires.Load() < 1 {
			t.Error("the other route waited for all three answers")
		}
		r.await(10)
		r.stop()
		r.checkOrdered(2, 5)
	})
}

// What is parked comes back after answers that never came.
func TestG1_LooksIntoTheParkingThatGetNoAnswer(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		state := &silentState{memState: r.state}
		r.dest.setFail(flaky(outbox.Transient(errInjected, 5*time.Second)))
		r.fill(1, 3)
		state.looks.Store(3)
		r.start(r.route(func(rt *Route) { rt.State = state }))
		r.await(3)
		r.stop()
		r.checkOrdered(1, 3)
		r.wantParked()
		if n := state.looks.Load(); n >= 0 {
			t.Errorf("%d answers have not been waited for in vain", n)
		}
	})
}

// Rows that are ours without our knowing are released after answers that never came.
func TestG1_ReleasesThatGetNoAnswer(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		state := &silentState{memState: r.state}
		r.config.Instance = "a"
		r.state.owner[adapters.LaneRef{Route: "former"}] = "a"
		state.releases.Store(3)
		r.start(r.route(func(rt *Route) { rt.State = state }))
		r.until("the former row is released", func() bool {
			r.state.mu.Lock()
			defer r.state.mu.Unlock()
			return r.state.owner[adapters.LaneRef{Route: "former"}] == ""
		})
		r.stop()
	})
}

// deafQueue gets no answer to some of its recoveries, and claims nothing meanwhile, as adapters do that put rows back between claims.
type deafQueue struct {
	*memQueue
	deaf    atomic.Int32 // so many calls
	waiting atomic.Bool
}

func (d *deafQueue) Recover(ctx context.Context) (int, error) {
	if d.deaf.Add(-1) >= 0 {
		d.waiting.Store(true)
		defer d.waiting.Store(false)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return d.memQueue.Recover(ctx)
}

func (d *deafQueue) Claim(ctx context.Context, c adapters.ClaimRequest) ([]*adapters.Row, error) {
	if d.waiting.Load() {
		return nil, errInjected
	}
	return d.memQueue.Claim(ctx, c)
}

// Rows are claimed again after stuck ones could not be looked for because answers never came.
func TestG1_RecoveriesThatGetNoAnswer(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.config.Lease = 10 * time.Second
		q := &deafQueue{memQueue: r.table.open()}
		q.deaf.Store(2)
		r.start(r.from(q, nil))
		r.until("a recovery waits for its answer", q.waiting.Load)
		r.fill(2, 5)
		r.await(10)
		r.stop()
		r.checkOrdered(2, 5)
		r.wantStatuses(map[string]int{"done": 10})
	})
}

// silentQueue does not answer its first claims.
type silentQueue struct {
	*memQueue
	silent atomic.Int32
}

func (s *silentQueue) Claim(ctx context.Context, c adapters.ClaimRequest) ([]*adapters.Row, error) {
	if s.silent.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.memQueue.Claim(ctx, c)
}

// A claim whose answer never comes is given up after a lease, as other statements are, and not only when a drain would be.
func TestG13_ClaimsThatGetNoAnswer(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.config.Lease = 10 * time.Second
		q := &silentQueue{memQueue: r.table.open()}
		q.silent.Store(1)
		r.fill(2, 5)
		begun := time.Now()
		r.start(r.from(q, nil))
		r.await(10)
		if took := time.Since(begun); took < r.config.Lease || took > 2*r.config.Lease {
			t.Errorf("the rows arrived after %v, and the claim before theirs was to take a lease of %v", took, r.config.Lease)
		}
		r.stop()
		r.checkOrdered(2, 5)
		r.wantStatuses(map[string]int{"done": 10})
	})
}

func TestBoundsGrowAndShrink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := settling.CallTimeout{Usual: 10 * time.Second}
		try := func(fail error, wait bool) (d time.Duration) {
			_ = b.Call(t.Context(), func(ctx context.Context) error {
				limit, _ := ctx.Deadline()
				d = time.Until(limit)
				if wait {
					<-ctx.Done()
				}
				return fail
			})
			return d
		}
		for i, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
			want := time.Duration(seconds) * time.Second
			if got := try(context.DeadlineExceeded, true); got != want {
				t.Errorf("try %d: %v, want %v", i, got, want)
			}
		}
		if got := try(errors.New("refused"), false); got != settling.LongestCallTimeout {
			t.Errorf("%v", got)
		}
		if got := try(nil, false); got != settling.LongestCallTimeout { // another error told nothing about the limit
			t.Errorf("%v", got)
		}
		if got := try(nil, false); got != 10*time.Second {
			t.Errorf("after a success: %v", got)
		}
	})
}
