package router

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestG3_StopUnderLoad(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(r *rig) {
				slow := flaky(outbox.Transient(errInjected, 1200*time.Millisecond))
				r.dest.setFail(func(a string, msg *message.Message) error {
					time.Sleep(time.Millisecond)
					return slow(a, msg)
				})
				r.fill(20, 50)
				for i := range 10 {
					r.start(r.route(func(rt *Route) { rt.Window = 64 }))
					r.await(min(100*(i+1), 900))
					r.stop()
				}
				r.start(r.route(nil))
				r.await(1000)
				time.Sleep(5 * time.Second)
				r.stop()
				r.checkOrdered(20, 50)
				r.wantParked()
			})
		})
	}
}

// A store that is down at the end is told: what was delivered comes again.
func TestG3_AStopThatCannotSettleSaysSo(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(time.Second)
		r.state.setFail(errInjected)
		r.fill(2, 2)
		r.await(4)
		r.cancel()
		if err := <-r.done; err == nil || !strings.Contains(err.Error(), "may be delivered again: injected") {
			t.Errorf("got %v", err)
		}
	})
}

// A state store that is away for a moment at the end costs nothing.
func TestG3_ADrainSettlesAgainWhenTheStoreIsBack(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(time.Second)
		r.state.setFail(errInjected)
		r.fill(2, 2)
		r.await(4)
		time.AfterFunc(3*time.Second, func() { r.state.setFail(nil) })
		r.stop()
		r.start(r.route(nil))
		time.Sleep(5 * time.Second)
		r.stop()
		r.checkOrdered(2, 2)
	})
}

// A state store that does not answer any more does not keep a drain.
func TestG1_AHangingStateStoreDoesNotKeepADrain(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var hangs atomic.Bool
		store := &late{memState: r.state, hang: func(ctx context.Context) {
			if hangs.Load() {
				<-ctx.Done()
			}
		}}
		r.start(r.route(func(rt *Route) { rt.State = store }))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		hangs.Store(true)
		r.state.mu.Lock()
		r.state.raise("orders")
		r.state.mu.Unlock()
		time.Sleep(DefaultLease)
		began := time.Now()
		r.stop()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the drain took %v", d)
		}
	})
}
