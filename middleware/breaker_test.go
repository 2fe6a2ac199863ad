package middleware_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sony/gobreaker/v2"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// attempts runs messages of a lane through the breaker that fail with the
// errors in turn, and returns what the chain returned.
func attempts(t *testing.T, b *middleware.Breaker, errs ...error) []error {
	t.Helper()
	out := make([]error, len(errs))
	for i, err := range errs {
		_, out[i] = b.Middleware(failing(err))(newMessage(onLane(1)))
	}
	return out
}

// What counts against the address, and what says nothing about it.
func TestBreakerCountsWhatTheAddressFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		counts bool
	}{
		"transient":   {errBoom, true},
		"unavailable": {outbox.Unavailable(errBoom, 0), true},
		"exhausted":   {outbox.Exhaust(errBoom), true},
		"retry at":    {outbox.RetryAt(time.Now(), errBoom), true},
		"permanent":   {outbox.Permanent(errBoom), false},
		"gone":        {outbox.Gone(errBoom), false},
		"skip":        {outbox.Skip("filtered"), false},
		"released":    {outbox.Released(errBoom), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &middleware.Breaker{Failures: 2, Logger: quiet}
			attempts(t, b, c.err, outbox.Permanent(errBoom), c.err)
			got := attempts(t, b, nil)[0]
			if open := errors.Is(got, gobreaker.ErrOpenState); open != c.counts {
				t.Errorf("then: %v", got)
			}
		})
	}
	t.Run("a success begins anew", func(t *testing.T) {
		t.Parallel()
		got := attempts(t, &middleware.Breaker{Failures: 2, Logger: quiet}, errBoom, nil, errBoom, nil)
		wantVerdict(t, got[3], outbox.OutcomeDelivered)
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		b := &middleware.Breaker{Failures: 1, Logger: quiet}
		func() {
			defer func() { _ = recover() }()
			_, _ = b.Middleware(explode)(newMessage(onLane(1)))
		}()
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeDelivered)
	})
}

// A message that meets an open breaker says why it is open.
func TestAnOpenBreakerNamesTheCause(t *testing.T) {
	t.Parallel()
	got := attempts(t, &middleware.Breaker{Failures: 2, Logger: quiet}, errors.New("first"), outbox.Unavailable(errBoom, 0), nil)
	if got[2] == nil || !errors.Is(got[2], gobreaker.ErrOpenState) || !strings.Contains(got[2].Error(), errBoom.Error()) {
		t.Errorf("the error is %v, want one with %q", got[2], errBoom)
	}
}

// From closed over open and half open to closed again, with what the metrics and
// the log tell.
func TestBreakerLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		var log strings.Builder
		b := &middleware.Breaker{Failures: 3, Open: 10 * time.Second, Probes: 2, Name: "orders",
			Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		state := func(want string) {
			t.Helper()
			text := "# HELP outrider_breaker_state State of the breaker: 0 closed, 1 half open, 2 open.\n" +
				"# TYPE outrider_breaker_state gauge\noutrider_breaker_state{route=\"orders\"} " + want + "\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "outrider_breaker_state"); err != nil {
				t.Error(err)
			}
		}
		got := attempts(t, b, errBoom, errBoom, errBoom, nil)
		wantVerdict(t, got[1], outbox.OutcomeRetry)
		// The failure that opens it is the address's, and so are those before.
		if v := wantVerdict(t, got[2], outbox.OutcomeUnavailable); !v.Outage || !errors.Is(v.Err, errBoom) {
			t.Errorf("%+v", v)
		}
		if v := wantVerdict(t, got[3], outbox.OutcomeUnavailable); !v.Outage || v.RetryAfter != 10*time.Second+time.Millisecond {
			t.Errorf("%+v", v)
		}
		state("2")
		time.Sleep(10*time.Second + time.Millisecond)
		// A failure while it is half open is an attempt like any other.
		wantVerdict(t, attempts(t, b, errBoom)[0], outbox.OutcomeRetry)
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeUnavailable)
		time.Sleep(10*time.Second + time.Millisecond)
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeDelivered)
		state("1")
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeDelivered)
		state("0")
		if n := strings.Count(log.String(), "breaker=orders"); n != 5 {
			t.Errorf("%d changes logged, want 5:\n%s", n, log.String())
		}
		if n, err := testutil.GatherAndCount(registry, "outrider_breaker_opened_total"); n != 1 || err != nil {
			t.Errorf("%d series of openings, %v", n, err)
		}
	})
}

func TestBreakerRatio(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &middleware.Breaker{Ratio: 0.5, Requests: 10, Interval: time.Minute, Logger: quiet}
		attempts(t, b, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom) // too few
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeDelivered)
		time.Sleep(2 * time.Minute) // forgotten
		for range 6 {
			attempts(t, b, nil)
		}
		attempts(t, b, errBoom, errBoom, errBoom, errBoom, errBoom)
		wantVerdict(t, attempts(t, b, nil)[0], outbox.OutcomeDelivered)
		attempts(t, b, errBoom)
		wantVerdict(t, attempts(t, b, errBoom, nil)[1], outbox.OutcomeUnavailable)
	})
}

// In somebody's Watermill router: while it is open nothing is handled, and Retry
// outside of it waits; half open, one message at a time is let in.
func TestBreakerInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls, done atomic.Int64
		var down atomic.Bool
		down.Store(true)
		breaker := &middleware.Breaker{Failures: 3, Open: 30 * time.Second, Logger: quiet}
		b := startRouter(t, func(*message.Message) ([]*message.Message, error) {
			calls.Add(1)
			if down.Load() {
				return nil, errBoom
			}
			done.Add(1)
			return nil, nil
		}, middleware.Retry{Attempts: 1000, Base: time.Second, Max: 5 * time.Second}.Middleware, breaker.Middleware)
		defer b.stop()
		for range 5 {
			b.publish(message.NewMessage("id", nil))
		}
		time.Sleep(10 * time.Minute)
		if n := calls.Load(); n < 5 || n > 3+5+20 {
			t.Errorf("%d calls in ten minutes of outage", n)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		if done.Load() != 5 {
			t.Errorf("%d messages handled, want 5", done.Load())
		}
	})
}

func TestBreakerValidate(t *testing.T) {
	t.Parallel()
	wantInvalid(t, (&middleware.Breaker{}).Validate(), "")
	wantInvalid(t, (&middleware.Breaker{Failures: -1, Ratio: 2, Open: -1, Interval: -1}).Validate(),
		"breaker: failures is -1: give 1 or more\nbreaker: ratio is 2: give a number above 0 and at most 1\n"+
			"breaker: interval is -1ns: give a duration above 0\nbreaker: open is -1ns: give a duration above 0")
}
