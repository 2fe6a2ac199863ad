package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/sony/gobreaker"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// steady has delays that can be compared exactly: 1 s, 2 s, 4 s.
var steady = middleware.Retry{
	Attempts: 3, Base: time.Second, Max: time.Hour, Factor: 2, Jitter: middleware.NoJitter,
}

func TestRetryOnLaneDecidesWithoutSleeping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for number, delay := range map[int]time.Duration{
			0: time.Second, 1: time.Second, 2: 2 * time.Second,
		} {
			h, calls := returning(errBoom)
			_, err := steady.Middleware(h)(newMessage(onLane(number)))
			v := wantVerdict(t, err, outbox.OutcomeRetry)
			if got := v.At.Sub(start); got != delay {
				t.Errorf("attempt %d: next in %v, want %v", number, got, delay)
			}
			if !errors.Is(err, errBoom) {
				t.Errorf("%v hides the cause", err)
			}
			if calls.Load() != 1 {
				t.Errorf("the chain ran %d times, want once", calls.Load())
			}
		}
		if slept := time.Since(start); slept != 0 {
			t.Errorf("slept for %v on a lane", slept)
		}
	})
}

func TestRetryOnLaneExhausts(t *testing.T) {
	t.Parallel()
	for _, number := range []int{3, 4} {
		h, _ := returning(outbox.Transient(errBoom, time.Hour))
		_, err := steady.Middleware(h)(newMessage(onLane(number)))
		v := wantVerdict(t, err, outbox.OutcomeDead)
		if !v.Exhausted || v.Hold {
			t.Errorf("attempt %d: %+v, want exhausted and not held", number, v)
		}
		if want := fmt.Sprintf("attempt %d of 3: boom", number); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}

// Everything that is not a plain transient failure passes as it is: also a
// failure of the address on the last attempt.
func TestG10_RetryOnLaneLeavesOtherVerdictsAlone(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]error{
		"skip":         outbox.Skip("duplicate"),
		"unavailable":  outbox.Unavailable(errBoom, time.Second),
		"gone":         outbox.Gone(errBoom),
		"permanent":    outbox.Permanent(errBoom),
		"released":     outbox.Released(errBoom),
		"breaker open": gobreaker.ErrOpenState,
		"cancelled":    fmt.Errorf("send: %w", context.Canceled),
		"decided":      outbox.RetryAt(time.Now().Add(time.Hour), errBoom),
		"exhausted":    outbox.Exhaust(errBoom),
		"dead letter":  outbox.DeadLetter(errBoom, true),
	} {
		for _, number := range []int{1, 3} {
			h, _ := returning(in)
			if _, err := steady.Middleware(h)(newMessage(onLane(number))); err != in { //nolint:errorlint // identity is the point
				t.Errorf("%s, attempt %d: got %v", name, number, err)
			}
		}
	}
}

func TestRetryOnLaneHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]time.Duration{
			time.Minute:      time.Minute, // asked for longer than the backoff
			time.Millisecond: time.Second, // asked for less
		} {
			h, _ := returning(fmt.Errorf("send: %w", outbox.Transient(errBoom, after)))
			_, err := steady.Middleware(h)(newMessage(onLane(1)))
			if got := time.Until(outbox.VerdictOf(err).At); got != want {
				t.Errorf("Retry-After %v: next in %v, want %v", after, got, want)
			}
		}
	})
}

// A driver may hide the cancellation of its context behind an error of its own.
func TestRetryReleasesWhatWasCalledOff(t *testing.T) {
	t.Parallel()
	for _, number := range []int{1, 3} {
		for _, lane := range []bool{true, false} {
			ctx, cancel := context.WithCancel(context.Background())
			policy := steady
			if lane {
				ctx = onLaneOf(ctx, number)
			} else {
				policy.Attempts = number
			}
			_, err := policy.Middleware(func(*message.Message) ([]*message.Message, error) {
				cancel()
				return nil, errBoom
			})(newMessage(ctx))
			wantVerdict(t, err, outbox.OutcomeReleased)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
				t.Errorf("%v hides a cause", err)
			}
		}
	}
}

func TestRetryInProcessSleepsBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		h := func(*message.Message) ([]*message.Message, error) {
			at = append(at, time.Since(start))
			return nil, errBoom
		}
		_, err := steady.Middleware(h)(newMessage(t.Context()))
		if got, want := fmt.Sprint(at), "[0s 1s 3s]"; got != want {
			t.Errorf("attempts at %s, want %s", got, want)
		}
		if v := wantVerdict(t, err, outbox.OutcomeDead); !v.Exhausted || !errors.Is(err, errBoom) {
			t.Errorf("error %v, want boom, exhausted", err)
		}
	})
}

func TestRetryInProcessClassifies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		errs  []error
		calls int
		slept time.Duration
		want  outbox.Outcome
	}{
		"transient, then fine":       {[]error{errBoom, nil}, 2, time.Second, outbox.OutcomeDelivered},
		"Retry-After":                {[]error{outbox.Transient(errBoom, time.Minute), nil}, 2, time.Minute, outbox.OutcomeDelivered},
		"unavailable, then fine":     {[]error{outbox.Unavailable(errBoom, 0), nil}, 2, time.Second, outbox.OutcomeDelivered},
		"unavailable throughout":     {[]error{outbox.Unavailable(errBoom, 0)}, 3, 3 * time.Second, outbox.OutcomeUnavailable},
		"unavailable all but once":   {[]error{outbox.Unavailable(errBoom, 0), errBoom}, 3, 3 * time.Second, outbox.OutcomeRetry},
		"breaker open, then fine":    {[]error{gobreaker.ErrOpenState, nil}, 2, time.Second, outbox.OutcomeDelivered},
		"gone":                       {[]error{outbox.Gone(errBoom)}, 1, 0, outbox.OutcomeUnavailable},
		"permanent":                  {[]error{outbox.Permanent(errBoom)}, 1, 0, outbox.OutcomeDead},
		"permanent at the second":    {[]error{errBoom, outbox.Permanent(errBoom)}, 2, time.Second, outbox.OutcomeDead},
		"skip ends as handled":       {[]error{outbox.Skip("duplicate")}, 1, 0, outbox.OutcomeDelivered},
		"released":                   {[]error{outbox.Released(errBoom)}, 1, 0, outbox.OutcomeReleased},
		"cancelled":                  {[]error{context.Canceled}, 1, 0, outbox.OutcomeReleased},
		"an attempt timed out":       {[]error{context.DeadlineExceeded, nil}, 2, time.Second, outbox.OutcomeDelivered},
		"the end decided further in": {[]error{outbox.Exhaust(errBoom)}, 1, 0, outbox.OutcomeDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				h, calls := returning(c.errs...)
				_, err := steady.Middleware(h)(newMessage(t.Context()))
				wantVerdict(t, err, c.want)
				if calls.Load() != int64(c.calls) || time.Since(start) != c.slept {
					t.Errorf("%d attempts in %v, want %d in %v", calls.Load(), time.Since(start), c.calls, c.slept)
				}
			})
		})
	}
}

func TestRetryInProcessHonoursATimeDecidedFurtherIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, _ := returning(outbox.RetryAt(start.Add(time.Hour), errBoom), outbox.RetryAt(start, errBoom), nil)
		if _, err := steady.Middleware(h)(newMessage(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != time.Hour {
			t.Errorf("took %v, want 1h: the second decision was in the past", got)
		}
	})
}

func TestRetryInProcessStopsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, calls := returning(errBoom)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := steady.Middleware(h)(newMessage(ctx))
		wantVerdict(t, err, outbox.OutcomeReleased)

		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = steady.Middleware(h)(newMessage(ctx))
		if v := wantVerdict(t, err, outbox.OutcomeDead); !v.Exhausted {
			t.Errorf("%+v, want exhausted: the time for all attempts is over", v)
		}
		if calls.Load() != 2 || time.Since(start) != 200*time.Millisecond {
			t.Errorf("%d attempts in %v, want 2 in 200ms", calls.Load(), time.Since(start))
		}
	})
}

// Watermill's Timeout leaves its ended context in the message.
func TestRetryInProcessGivesEachAttemptTheFirstContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := chain(func(msg *message.Message) ([]*message.Message, error) {
			calls++
			if err := msg.Context().Err(); err != nil {
				t.Errorf("attempt %d begins with a context that has ended: %v", calls, err)
			}
			return nil, errBoom
		}, steady.Middleware, stock.Timeout(time.Minute))
		if _, err := h(newMessage(t.Context())); err == nil || calls != 3 {
			t.Errorf("error %v after %d attempts, want one after 3", err, calls)
		}
	})
}

func TestRetryInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		b := startRouter(t, func(msg *message.Message) ([]*message.Message, error) {
			calls++
			if calls < 3 {
				return nil, errBoom
			}
			return message.Messages{message.NewMessage("out-1", msg.Payload)}, nil
		}, steady.Middleware)
		defer b.stop()
		out, err := b.pubsub.Subscribe(t.Context(), "out")
		if err != nil {
			t.Fatal(err)
		}
		b.publish(newMessage(t.Context()))
		(<-out).Ack()
		if calls != 3 || time.Since(start) != 3*time.Second {
			t.Errorf("%d attempts in %v, want 3 in 3s", calls, time.Since(start))
		}
	})
}

// A program that ends does not wait for the backoff.
func TestRetryInRouterEndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h, calls := returning(errBoom)
		b := startRouter(t, h, steady.Middleware)
		b.publish(newMessage(t.Context()))
		synctest.Wait()
		b.stop()
		if time.Since(start) != 0 {
			t.Errorf("stopped after %v and %d attempts, want at once", time.Since(start), calls.Load())
		}
	})
}

func TestRetryDelaysStayInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base"))
		policy := middleware.Retry{
			Attempts: math.MaxInt,
			Base:     base,
			Max:      base + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "above base")),
			Factor:   rapid.Float64Range(1, 10).Draw(t, "factor"),
			Jitter:   rapid.SampledFrom([]float64{middleware.NoJitter, 0.1, 0.5, 1}).Draw(t, "jitter"),
		}
		if err := policy.Validate(); err != nil {
			t.Fatal(err)
		}
		number := rapid.IntRange(1, 2000).Draw(t, "number")

		h, _ := returning(errBoom)
		before := time.Now()
		_, err := policy.Middleware(h)(newMessage(onLane(number)))
		after := time.Now()
		at := outbox.VerdictOf(err).At

		plain := min(float64(policy.Max), float64(base)*math.Pow(policy.Factor, float64(number-1)))
		jitter := max(policy.Jitter, 0)
		low, high := time.Duration(plain*(1-jitter))-1, time.Duration(plain*(1+jitter))
		if at.Sub(before) < low || at.Sub(after) > high {
			t.Fatalf("delay of about %v, want %v to %v", at.Sub(before), low, high)
		}
	})
}

func TestRetryDelayDoesNotOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := middleware.Retry{Base: math.MaxInt64, Max: math.MaxInt64, Jitter: middleware.NoJitter}
		_, err := policy.Middleware(failing(errBoom))(newMessage(onLane(1)))
		if got := time.Until(outbox.VerdictOf(err).At); got != math.MaxInt64 {
			t.Errorf("next in %v, want the longest duration", got)
		}
	})
}

func TestRetryDefaultDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		low, high := time.Hour, time.Duration(0)
		for range 2000 {
			h, _ := returning(errBoom)
			_, err := middleware.Retry{}.Middleware(h)(newMessage(onLane(1)))
			delay := time.Until(outbox.VerdictOf(err).At)
			low, high = min(low, delay), max(high, delay)
		}
		// 200 ms with jitter 0.5: spread over nearly all of 100 to 300 ms.
		if low < 100*time.Millisecond || low > 110*time.Millisecond ||
			high > 300*time.Millisecond || high < 290*time.Millisecond {
			t.Errorf("delays from %v to %v, want 100ms to 300ms", low, high)
		}
		h, _ := returning(errBoom)
		_, err := middleware.Retry{}.Middleware(h)(newMessage(onLane(9)))
		if delay := time.Until(wantVerdict(t, err, outbox.OutcomeRetry).At); delay > 90*time.Second {
			t.Errorf("delay %v after attempt 9, want at most 1.5 times the max of 60s", delay)
		}
		_, err = middleware.Retry{}.Middleware(h)(newMessage(onLane(10)))
		wantVerdict(t, err, outbox.OutcomeDead)
	})
}

func TestRetryValidate(t *testing.T) {
	t.Parallel()
	for want, policy := range map[string]middleware.Retry{
		"":                                      {},
		"\n":                                    {Attempts: 1, Base: 1, Max: 1, Factor: 1, Jitter: 1},
		"retry: attempts is -1: give 1 or more": {Attempts: -1},
		"retry: base is -1s: give a duration above 0":                                               {Base: -time.Second},
		"retry: max is -1s: give a duration above 0":                                                {Max: -time.Second},
		"retry: factor is 0.5: give a number of 1 or more":                                          {Factor: 0.5},
		"retry: factor is NaN: give a number of 1 or more":                                          {Factor: math.NaN()},
		"retry: jitter is 1.5: give a number between 0 and 1":                                       {Jitter: 1.5},
		"retry: jitter is NaN: give a number between 0 and 1":                                       {Jitter: math.NaN()},
		"retry: base is 2m0s, longer than max, which is 1m0s: raise max or lower base":              {Base: 2 * time.Minute},
		"retry: attempts is -1: give 1 or more\nretry: jitter is -2: give a number between 0 and 1": {Attempts: -1, Jitter: -2},
	} {
		wantInvalid(t, policy.Validate(), strings.TrimSpace(want))
	}
}

// Whatever the fields are, nothing panics and no attempt is due in the past.
func FuzzRetry(f *testing.F) {
	f.Add(3, int64(time.Second), int64(time.Minute), 2.0, 0.5, 2, int64(0))
	f.Add(-1, int64(-1), int64(math.MaxInt64), math.Inf(1), math.NaN(), -7, int64(math.MinInt64))
	f.Add(math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64), math.MaxFloat64, 1.0, math.MaxInt, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, attempts int, base, ceiling int64, factor, jitter float64, number int, after int64) {
		policy := middleware.Retry{
			Attempts: attempts, Base: time.Duration(base), Max: time.Duration(ceiling),
			Factor: factor, Jitter: jitter,
		}
		_ = policy.Validate()
		before := time.Now()
		h, _ := returning(outbox.Transient(errBoom, time.Duration(after)))
		_, err := policy.Middleware(h)(newMessage(onLane(number)))
		switch v := outbox.VerdictOf(err); {
		case v.Outcome == outbox.OutcomeDead && v.Exhausted:
		case v.Outcome == outbox.OutcomeRetry && !v.At.Before(before.Add(time.Duration(after))) && !v.At.Before(before):
		default:
			t.Errorf("decided %+v", v)
		}
	})
}

func TestLinearDelaysGrowByTheBase(t *testing.T) {
	t.Parallel()
	r := middleware.Retry{Base: 30 * time.Second, Max: 100 * time.Second, Linear: true, Jitter: middleware.NoJitter}
	for number, want := range []time.Duration{30 * time.Second, 30 * time.Second, 60 * time.Second, 90 * time.Second, 100 * time.Second} {
		if got := r.Delay(number); got != want {
			t.Errorf("after attempt %d: %v, want %v", number, got, want)
		}
	}
}
