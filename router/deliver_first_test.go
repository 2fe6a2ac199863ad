package router

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// ran is one run of a chain, as a middleware saw it.
type ran struct {
	id      string
	arrived bool // before the handler was called
	err     error
}

// watch returns a middleware for [Route.DeliverFirst] that notes its runs.
func (r *rig) watch(runs *[]ran) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			arrived := r.dest.has(msg.UUID)
			produced, err := h(msg)
			r.dest.mu.Lock()
			defer r.dest.mu.Unlock()
			*runs = append(*runs, ran{msg.UUID, arrived, err})
			return produced, err
		}
	}
}

// When delivering first every attempt runs through the chain once, after it was made,
// and the chain sees what came of it; groups stand still behind a failure as ever.
func TestG2_DeliverFirstRunsChainsAfterDeliveries(t *testing.T) {
	for name, ordering := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, ordering, func(r *rig) {
				var runs []ran
				r.dest.setFail(once("g0-1", outbox.Transient(errInjected, 0)))
				r.fill(2, 3)
				r.start(r.route(func(rt *Route) {
					rt.DeliverFirst, rt.Middleware = true, append(rt.Middleware[:2:2], r.watch(&runs))
				}))
				r.await(6)
				r.stop()
				r.checkOrdered(2, 3)
				seen := map[string]int{}
				for _, x := range runs {
					failed := x.id == "g0-1" && seen[x.id] == 0
					if seen[x.id]++; x.arrived == failed || errors.Is(x.err, errInjected) != failed {
						t.Errorf("run %d of %s: had arrived: %t, outcome %v", seen[x.id], x.id, x.arrived, x.err)
					}
				}
				for g := range 2 {
					for n := range 3 {
						id, want := fmt.Sprintf("g%d-%d", g, n), 1
						if id == "g0-1" {
							want = 2
						}
						if seen[id] != want {
							t.Errorf("the chain of %s ran %d times, want %d", id, seen[id], want)
						}
					}
				}
			})
		})
	}
}

// A chain that panics changes nothing for a message that has arrived, and fails
// the attempt of one that has not.
func TestG3_APanicAfterDeliveryDeliversNothingAgain(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(once("g1-0", outbox.Permanent(errInjected)))
		r.fill(2, 2)
		r.start(r.route(func(rt *Route) {
			rt.DeliverFirst, rt.Middleware = true, append(rt.Middleware[:2:2], func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					_, err := h(msg)
					if msg.UUID == "g0-0" || err != nil {
						panic("as the test wants it")
					}
					return nil, err
				}
			})
		}))
		r.await(4)
		time.Sleep(time.Minute)
		r.stop()
		r.checkOrdered(2, 2)
		r.wantParked() // the permanent failure was never seen
		if got := r.attempts("g1-0"); got != 2 {
			t.Errorf("delivered at attempt %d, want 2", got)
		}
	})
}

// A layer that is marked and filters is wrong: what it keeps has been delivered, and
// what failed is attempted again instead of being lost.
func TestG1_AWrongMarkerLosesNothing(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(once("g1-0", outbox.Transient(errInjected, 0)))
		r.fill(2, 2)
		r.start(r.route(func(rt *Route) {
			rt.Use(middleware.Retry{Base: time.Millisecond}, middleware.AfterDelivery(func(message.HandlerFunc) message.HandlerFunc {
				return func(*message.Message) ([]*message.Message, error) { return nil, nil }
			}))
		}))
		r.await(4)
		r.stop()
		r.checkOrdered(2, 2)
		if got := r.attempts("g1-0"); got != 2 {
			t.Errorf("delivered at attempt %d, want 2", got)
		}
	})
}

// stamp is a layer that only looks, and needs a header before.
type stamp struct{ looked *atomic.Int32 }

func (stamp) AfterDelivery() {}
func (stamp) BeforeDelivery(msg *message.Message) {
	if msg.UUID == "g1-0" {
		panic("as the test wants it")
	}
	msg.Metadata.Set("stamp", msg.UUID)
}

func (s stamp) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if msg.Metadata.Get("stamp") == msg.UUID {
			s.looked.Add(1)
		}
		return h(msg)
	}
}

// What a layer sets before the delivery is part of it; a panic there fails the attempt.
func TestALayerPreparesItsDeliveries(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var looked atomic.Int32
		r.fill(2, 2)
		r.start(r.route(func(rt *Route) { rt.Use(middleware.Retry{Attempts: 1}, stamp{&looked}) }))
		r.await(3)
		r.stop()
		if got := looked.Load(); got != 3 {
			t.Errorf("%d messages had their header, want 3", got)
		}
		if r.dest.has("g1-0") {
			t.Error("delivered without having been prepared")
		}
	})
}

// A lane offers what is read, however many chains other lanes have, and never
// more than its window.
func TestG7_DeliverFirstIsBoundedByTheWindow(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		slow := &stuck{receiver: receiver{ordering: wave}}
		r.fill(100, 20)
		r.start(r.route(func(rt *Route) {
			rt.Destination, rt.Window, rt.SendTimeout, rt.Middleware = slow, 32, time.Hour, nil
		}))
		time.Sleep(time.Minute)
		for _, s := range r.router.routes.All()[0].Sessions() {
			if in := lane.Inspect(s); in.Chains > 32 || in.Queued > 0 {
				t.Errorf("%s: %d messages under way, %d not yet offered; the window is 32", s.Lane.Name, in.Chains, in.Queued)
			}
		}
		r.cancel()
		if err := <-r.done; !errors.Is(err, ErrCutOff) {
			t.Errorf("stopped with %v, want %v", err, ErrCutOff)
		}
	})
}
