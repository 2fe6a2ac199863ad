package router

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// deafSource and deafState do not get an answer for a while: a connection on
// which nothing comes any more and that nobody closes.
type deafSource struct {
	*memSource
	deaf atomic.Int32 // so many calls
}

func (d *deafSource) Fetch(ctx context.Context, reads []outbox.Read, take func(int, *outbox.Row) bool) ([]outbox.ReadResult, error) {
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

func (d *deafState) Settle(ctx context.Context, all []outbox.Settlement) ([]outbox.LaneRef, error) {
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

func TestBoundsGrowAndShrink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bound{usual: 10 * time.Second}
		try := func(fail error, wait bool) time.Duration {
			ctx, cancel := b.begin(t.Context())
			defer cancel()
			limit, _ := ctx.Deadline()
			d := time.Until(limit)
			if wait {
				<-ctx.Done()
			}
			b.end(ctx, fail)
			return d
		}
		for i, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
			want := time.Duration(seconds) * time.Second
			if got := try(context.DeadlineExceeded, true); got != want {
				t.Errorf("try %d: %v, want %v", i, got, want)
			}
		}
		if got := try(errors.New("refused"), false); got != longestBound {
			t.Errorf("%v", got)
		}
		if got := try(nil, false); got != longestBound { // another error told nothing about the limit
			t.Errorf("%v", got)
		}
		if got := try(nil, false); got != 10*time.Second {
			t.Errorf("after a success: %v", got)
		}
	})
}
