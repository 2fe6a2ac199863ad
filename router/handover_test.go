package router

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// unsettling is a state store that takes everything but settlements, for a while.
type unsettling struct {
	*memState
	on atomic.Bool
}

func (s *unsettling) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	if s.on.Load() {
		return nil, errInjected
	}
	return s.memState.Settle(ctx, all)
}

// Lanes are being handed over and cannot be settled when the instance they are for leaves
// again. They are not taken anew before they are settled: that would fence what is still to
// be written, and deliver it once more.
func TestG3_LanesThatAreBeingHandedOverAreNotTaken(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		store := &unsettling{memState: a.state}
		a.start(a.route(func(rt *Route) { rt.State = store }))
		a.spreadOver("orders", []string{"a"}, 16)
		time.Sleep(time.Second) // the first cursors are written
		store.on.Store(true)
		a.fill(40, 5)
		a.await(200)
		b.start(b.route(nil))
		a.until("lanes come to rest", func() bool { return len(a.router.routes.All()[0].Sessions()) == 8 })
		b.stop()
		time.Sleep(3 * time.Second)
		if n := len(a.router.routes.All()[0].Sessions()); n != 8 {
			t.Errorf("%d lanes are worked while others have still to be settled, want 8", n)
		}
		store.on.Store(false)
		a.until("all lanes are worked again", func() bool { return len(a.router.routes.All()[0].Sessions()) == 16 })
		time.Sleep(time.Second)
		a.stop()
		checkEachOnce(t, 40, 5, a.dest)
	})
}
