package middleware_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// passes counts how many of many concurrent messages pass two lanes' handlers
// within each second.
func passes(throttle *middleware.Throttle, messages, seconds int) []int {
	counts := make([]int, seconds)
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	passed := make(chan int, messages)
	for lane := range 2 {
		h := throttle.Middleware(func(*message.Message) ([]*message.Message, error) {
			passed <- int(time.Since(start) / time.Second)
			return nil, nil
		})
		for range messages / 2 {
			go func() { _, _ = h(newMessage(onLaneOf(ctx, lane))) }()
		}
	}
	<-time.After(time.Duration(seconds)*time.Second - time.Millisecond)
	synctest.Wait()
	cancel()
	synctest.Wait()
	close(passed)
	for second := range passed {
		counts[second]++
	}
	return counts
}

func TestThrottleLimitsAllLanesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		throttle := &middleware.Throttle{Rate: 10, Burst: 5}
		got := passes(throttle, 100, 3)
		// The burst, and then one each 100 ms; at 1.0 s and 2.0 s the next second has begun.
		for second, want := range []int{14, 10, 10} {
			if got[second] != want {
				t.Errorf("second %d: %d passed, want %d (all: %v)", second, got[second], want, got)
			}
		}
	})
}

// An instance that owns a part of the route's lanes lets that part of the rate
// pass, and more or less when lanes move.
func TestThrottleTakesItsShareOfTheRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		share := 0.25
		ctx := context.WithValue(t.Context(), lanectx.Share, func() float64 { return share })
		throttle := &middleware.Throttle{Rate: 100, Burst: 8}
		h := throttle.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
		took := func(n int) time.Duration {
			began := time.Now()
			for range n {
				msg := message.NewMessage("id", nil)
				msg.SetContext(ctx)
				if _, err := h(msg); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began).Round(time.Second)
		}
		for _, tt := range []struct {
			share float64
			want  time.Duration
		}{{0.25, 10 * time.Second}, {1, 3 * time.Second}, {0.5, 5 * time.Second}} {
			share = tt.share
			if got := took(252); got != tt.want {
				t.Errorf("with %v of the lanes 252 messages took %v, want %v", tt.share, got, tt.want)
			}
		}
	})
}

func TestThrottleWithoutARateLimitsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{0, -1, math.NaN()} {
			if got := passes(&middleware.Throttle{Rate: rate}, 100, 1); got[0] != 100 {
				t.Errorf("rate %v: %d of 100 passed", rate, got[0])
			}
		}
	})
}

func TestThrottleReleasesWhenTheContextIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, calls := returning(nil)
		throttled := (&middleware.Throttle{Rate: 0.1}).Middleware(h)
		if _, err := throttled(newMessage(onLane(1))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		for range 2 { // cancelled while it waits, and before
			_, err := throttled(newMessage(onLaneOf(ctx, 1)))
			wantVerdict(t, err, outbox.OutcomeReleased)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
		}
		if calls.Load() != 1 || time.Since(start) != time.Second {
			t.Errorf("%d passed in %v, want 1 in 1s", calls.Load(), time.Since(start))
		}

		// Who was released did not use up a turn.
		if _, err := throttled(newMessage(onLane(1))); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("the next passed after %v with error %v, want 10s", time.Since(start), err)
		}
	})
}

func TestThrottleDoesNotWaitBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, calls := returning(nil)
		throttled := chain(h, middleware.Timeout{Limit: time.Second}.Middleware, (&middleware.Throttle{Rate: 0.1}).Middleware)
		if _, err := throttled(newMessage(onLane(1))); err != nil {
			t.Fatal(err)
		}
		_, err := throttled(newMessage(onLane(1)))
		v := wantVerdict(t, err, outbox.OutcomeReleased)
		if v.RetryAfter != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v with Retry-After %v, want the deadline and 10s", err, v.RetryAfter)
		}
		if want := "throttle: the next turn is in 10s (0.1/s)"; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
		if calls.Load() != 1 || time.Since(start) != 0 {
			t.Errorf("%d passed in %v, want 1 at once", calls.Load(), time.Since(start))
		}
	})
}

func TestThrottleWithAnAbsurdRateDoesNotOverflow(t *testing.T) {
	t.Parallel()
	h, _ := returning(nil)
	throttled := chain(h, middleware.Timeout{}.Middleware, (&middleware.Throttle{Rate: 1e-300}).Middleware)
	_, _ = throttled(newMessage(t.Context()))
	_, err := throttled(newMessage(t.Context()))
	if v := wantVerdict(t, err, outbox.OutcomeReleased); v.RetryAfter != math.MaxInt64 {
		t.Errorf("Retry-After %v, want the longest there is", v.RetryAfter)
	}
}

func TestThrottleInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, calls := returning(nil)
		b := startRouter(t, h, (&middleware.Throttle{Rate: 2}).Middleware)
		for range 5 {
			b.publish(newMessage(t.Context()))
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if calls.Load() != 5 {
			t.Errorf("%d passed in 2s, want 5", calls.Load())
		}
		// A program that ends does not wait for turns.
		for range 100 {
			b.publish(newMessage(t.Context()))
		}
		b.stop()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("stopped after %v, want 2s", took)
		}
	})
}

func TestThrottleValidate(t *testing.T) {
	t.Parallel()
	wantInvalid(t, (&middleware.Throttle{Rate: 0.5, Burst: 1}).Validate(), "")
	for _, rate := range []float64{0, -1, math.Inf(1), math.NaN()} {
		if err := (&middleware.Throttle{Rate: rate}).Validate(); err == nil {
			t.Errorf("rate %v is accepted", rate)
		}
	}
	wantInvalid(t, (&middleware.Throttle{Burst: -1}).Validate(),
		"throttle: rate is 0: give the messages per second that may pass, above 0\nthrottle: burst is -1: give 1 or more")
}
