package router

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/sony/gobreaker"

	"github.com/outriderhq/outrider/outbox"
)

// Watermill's own middleware, in one route together: order is kept, everything
// is delivered, and an outage behind the breaker costs no attempts.
func TestG2_G10_WatermillMiddlewareTogether(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var mu sync.Mutex
		down, opened, panicked := false, 0, false
		breaker := stock.NewCircuitBreaker(gobreaker.Settings{
			Timeout:     time.Second,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 5 },
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if to == gobreaker.StateOpen {
					opened++
				}
			},
		})
		r.dest.setFail(func(string, *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errors.New("status 500")
			}
			return nil
		})
		correlation := map[string]string{}
		r.fill(8, 25)
		r.start(r.route(func(rt *Route) {
			rt.Middleware = append(stack(10*time.Millisecond, 5),
				stock.CorrelationID,
				breaker.Middleware,
				stock.NewThrottle(200, time.Second).Middleware,
				stock.Retry{MaxRetries: 1, InitialInterval: 5 * time.Millisecond, ShouldRetry: func(p stock.RetryParams) bool {
					return outbox.KindOf(p.Err) == outbox.KindTransient
				}}.Middleware,
				stock.Timeout(20*time.Second),
				stock.Recoverer,
				func(h message.HandlerFunc) message.HandlerFunc {
					return func(msg *message.Message) ([]*message.Message, error) {
						mu.Lock()
						correlation[msg.UUID] = stock.MessageCorrelationID(msg)
						now := msg.UUID == "g3-3" && !panicked
						panicked = panicked || now
						mu.Unlock()
						if now {
							panic("once")
						}
						return h(msg)
					}
				})
		}))
		r.await(60)
		mu.Lock()
		down = true
		mu.Unlock()
		time.Sleep(20 * time.Second)
		at := r.dest.count()
		mu.Lock()
		down = false
		mu.Unlock()
		r.await(200)
		r.stop()
		r.checkOrdered(8, 25)
		r.wantParked()
		if opened == 0 || at == 200 || !panicked {
			t.Errorf("the breaker opened %d times, %d came before the outage ended, panicked: %t", opened, at, panicked)
		}
		if s := r.router.Stats()[0]; s.Dead != 0 || len(s.Down) != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// Each of them alone, too.
func TestG2_WatermillMiddlewareAlone(t *testing.T) {
	for name, mw := range map[string]func() message.HandlerMiddleware{
		"recoverer":   func() message.HandlerMiddleware { return stock.Recoverer },
		"timeout":     func() message.HandlerMiddleware { return stock.Timeout(time.Second) },
		"correlation": func() message.HandlerMiddleware { return stock.CorrelationID },
		"breaker":     func() message.HandlerMiddleware { return stock.NewCircuitBreaker(gobreaker.Settings{}).Middleware },
		"throttle":    func() message.HandlerMiddleware { return stock.NewThrottle(100, time.Second).Middleware },
		"retry":       func() message.HandlerMiddleware { return stock.Retry{MaxRetries: 2}.Middleware },
		"instant ack": func() message.HandlerMiddleware { return stock.InstantAck },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				r.dest.setFail(flaky(errInjected))
				r.fill(5, 10)
				shared := mw()
				r.start(r.route(func(rt *Route) { rt.Middleware = append(rt.Middleware, shared) }))
				r.await(50)
				r.stop()
				r.checkOrdered(5, 10)
				r.wantParked()
			})
		})
	}
}

// A middleware that loses the lane's context is told so, by a dead message.
func TestG1_AContextThatDoesNotDerive(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.add("g0", "g0-0")
		r.start(r.route(with(func(msg *message.Message) error { msg.SetContext(context.Background()); return nil })))
		r.until("one dead", func() bool { return len(r.parked()) == 1 })
		r.stop()
		r.wantParked("g0-0 dead 1")
	})
}
