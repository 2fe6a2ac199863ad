package router

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// An outage behind a breaker costs no attempts, whether one group met it or
// many, whether it shows as errors or as an address that cannot be reached, and
// with short delays between attempts or with those that are parked.
func TestG10_BreakerGivesAttemptsBack(t *testing.T) {
	for _, groups := range []int{1, 2, 9} {
		for _, o := range []adapters.Ordering{wave, group, templated} {
			for _, base := range []time.Duration{10 * time.Millisecond, 3 * time.Second} {
				t.Run(fmt.Sprintf("%d groups, %+v, %v", groups, o, base), func(t *testing.T) {
					inBubble(t, o, func(r *rig) { outageBehindBreaker(r, groups, base) })
				})
			}
		}
	}
}

func outageBehindBreaker(r *rig, groups int, base time.Duration) {
	var down atomic.Bool
	r.dest.fail = func(string, *message.Message) error {
		if down.Load() {
			return errors.New("status 500")
		}
		return nil
	}
	var mu sync.Mutex
	numbers, sent := map[int]int{}, map[string]int{} // of deliveries; while the breaker was open
	watch := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			a, _ := outbox.AttemptOf(msg.Context())
			out, err := h(msg)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				numbers[a.Number]++
			} else {
				sent[msg.UUID]++
			}
			return out, err
		}
	}
	breaker := &middleware.Breaker{Failures: 3, Open: 5 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	mws := append(stack(base, 10), breaker.Middleware, watch)
	down.Store(true)
	r.fill(groups, 5)
	r.start(r.route(func(def *Route) { def.Middleware, def.Attempts = mws, 10 }))
	time.Sleep(30 * time.Second)
	down.Store(false)
	r.await(groups * 5)
	r.fillFrom(groups, 5, 8)
	r.await(groups * 8)
	r.stop()
	r.checkOrdered(groups, 8)
	r.wantParked()
	if len(numbers) != 1 || numbers[1] != groups*8 {
		r.t.Errorf("deliveries by number of the attempt: %v, want all to be first attempts", numbers)
	}
	if len(sent) == 0 {
		r.t.Error("nothing failed: the outage was not met")
	}
}

// While the breaker is half open a message that it let in may wait behind one
// that comes later: neither waits forever.
func TestG1_BreakerHalfOpenLetsAllIn(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.dest.fail = func(string, *message.Message) error {
			if down.Load() {
				return outbox.Unavailable(errors.New("refused"), 0)
			}
			return nil
		}
		breaker := &middleware.Breaker{Failures: 1, Open: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}
		r.fill(3, 1)
		r.start(r.route(func(def *Route) { def.Middleware = append(def.Middleware, breaker.Middleware) }))
		for i := 1; i < 20; i++ { // fresh messages at every moment of the breaker's life
			time.Sleep(time.Duration(i*170) * time.Millisecond)
			r.fillFrom(3, i, i+1)
		}
		down.Store(false)
		r.await(3 * 20)
		r.stop()
		r.checkOrdered(3, 20)
	})
}
