package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// The tests in this file say what a lane concludes when a route uses
// Watermill's own middleware: they are documentation of behaviour, the
// unwelcome one included. If one fails after an update of Watermill, what the
// docs say about that middleware has changed.

// memory is a repository of the Deduplicator without the endless goroutine of
// Watermill's own.
type memory map[string]bool

func (m memory) IsDuplicate(_ context.Context, key string) (bool, error) {
	seen := m[key]
	m[key] = true
	return seen, nil
}

// The Deduplicator records a message before it was handled. The next attempt
// after a failure therefore counts as delivered, and the message is lost.
func TestStockDeduplicatorLosesWhatFailed(t *testing.T) {
	t.Parallel()
	h, calls := returning(errBoom)
	deduplicated := chain(h, steady.Middleware, (&stock.Deduplicator{Repository: memory{}}).Middleware)
	_, err := deduplicated(newMessage(onLane(1)))
	wantVerdict(t, err, outbox.OutcomeRetry)
	_, err = deduplicated(newMessage(onLane(2)))
	wantVerdict(t, err, outbox.OutcomeDelivered)
	if calls.Load() != 1 {
		t.Errorf("%d attempts, want the first only", calls.Load())
	}
}

// A duplicate is delivered to the lane's eyes, not skipped: it counts as such.
func TestStockDeduplicatorDropsAsDelivered(t *testing.T) {
	t.Parallel()
	h, calls := returning(nil)
	deduplicated := (&stock.Deduplicator{Repository: memory{}}).Middleware(h)
	for range 2 {
		_, err := deduplicated(newMessage(onLane(1)))
		wantVerdict(t, err, outbox.OutcomeDelivered)
	}
	if calls.Load() != 1 {
		t.Errorf("%d deliveries, want 1", calls.Load())
	}
}

// Watermill's Retry sleeps while the lane waits, attempts what can never
// succeed, and leaves the time of the next durable attempt to the router. The
// lane counts all that as one attempt.
func TestStockRetrySleepsOnTheLane(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   error
		want outbox.Outcome
	}{
		{errBoom, outbox.OutcomeRetry},
		{outbox.Permanent(errBoom), outbox.OutcomeDead},
		{outbox.Skip("duplicate"), outbox.OutcomeSkipped},
		{outbox.Unavailable(errBoom, 0), outbox.OutcomeUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h, calls := returning(c.in)
			retry := stock.Retry{MaxRetries: 2, InitialInterval: time.Second, MaxInterval: time.Second, Multiplier: 1}
			_, err := retry.Middleware(h)(newMessage(onLane(1)))
			if v := wantVerdict(t, err, c.want); !v.At.IsZero() {
				t.Errorf("%v: next attempt at %v, want it undecided", c.in, v.At)
			}
			if calls.Load() != 3 || time.Since(start) != 2*time.Second {
				t.Errorf("%v: %d attempts in %v, want 3 in 2s", c.in, calls.Load(), time.Since(start))
			}
		})
	}
}

// ShouldRetry makes it heed the kinds of errors.
func TestStockRetryCanHeedVerdicts(t *testing.T) {
	t.Parallel()
	h, calls := returning(outbox.Permanent(errBoom))
	retry := stock.Retry{MaxRetries: 2, ShouldRetry: func(p stock.RetryParams) bool {
		return outbox.VerdictOf(p.Err).Outcome == outbox.OutcomeRetry
	}}
	_, err := retry.Middleware(h)(newMessage(onLane(1)))
	wantVerdict(t, err, outbox.OutcomeDead)
	if calls.Load() != 1 {
		t.Errorf("%d attempts, want 1", calls.Load())
	}
}

// PoisonQueue publishes whatever failed, in whichever way, and the lane takes
// the message for delivered: also on shutdown and in an outage.
func TestStockPoisonQueueTakesEverything(t *testing.T) {
	t.Parallel()
	for _, in := range []error{
		errBoom, context.Canceled, outbox.Released(errBoom), outbox.Unavailable(errBoom, 0),
		outbox.Skip("duplicate"), outbox.Permanent(errBoom),
	} {
		publisher := &recorder{}
		poison, err := stock.PoisonQueue(publisher, "poison")
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain(failing(in), poison)(newMessage(onLane(1)))
		wantVerdict(t, err, outbox.OutcomeDelivered)
		if n := len(publisher.published()); n != 1 {
			t.Errorf("%v: %d published, want 1", in, n)
		}
	}
}

// With a filter it takes the dead only; those that the router would have given
// back because it was the address that failed are among them.
func TestStockPoisonQueueCanHeedVerdicts(t *testing.T) {
	t.Parallel()
	publisher := &recorder{}
	poison, err := stock.PoisonQueueWithFilter(publisher, "poison", func(err error) bool {
		return outbox.VerdictOf(err).Outcome == outbox.OutcomeDead
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		attempt int
		in      error
		want    outbox.Outcome
		poison  int
	}{
		{1, context.Canceled, outbox.OutcomeReleased, 0},
		{3, outbox.Unavailable(errBoom, 0), outbox.OutcomeUnavailable, 0},
		{1, errBoom, outbox.OutcomeRetry, 0},
		{3, errBoom, outbox.OutcomeDelivered, 1},
		{1, outbox.Permanent(errBoom), outbox.OutcomeDelivered, 2},
	} {
		_, err := chain(failing(c.in), poison, steady.Middleware)(newMessage(onLane(c.attempt)))
		wantVerdict(t, err, c.want)
		if n := len(publisher.published()); n != c.poison {
			t.Errorf("%v: %d published, want %d", c.in, n, c.poison)
		}
	}
}

// InstantAck acknowledges the Watermill message, which is not what settles it:
// the lane goes by the returned error.
func TestStockInstantAckDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   error
		want outbox.Outcome
	}{
		{nil, outbox.OutcomeDelivered},
		{errBoom, outbox.OutcomeRetry},
		{outbox.Permanent(errBoom), outbox.OutcomeDead},
	} {
		msg := newMessage(onLane(1))
		_, err := chain(failing(c.in), stock.InstantAck)(msg)
		wantVerdict(t, err, c.want)
		select {
		case <-msg.Acked():
		default:
			t.Errorf("%v: not acknowledged", c.in)
		}
	}
}

// DelayOnError leaves the verdict alone, but writes metadata that subscribers
// with delays understand and lanes do not. Attempts that follow on a lane start
// from the row again, so the delay does not grow.
func TestStockDelayOnErrorDelaysNothing(t *testing.T) {
	t.Parallel()
	delayed := &stock.DelayOnError{InitialInterval: time.Minute, MaxInterval: time.Hour, Multiplier: 2}
	msg := newMessage(onLane(1))
	_, err := chain(failing(errBoom), delayed.Middleware)(msg)
	if v := wantVerdict(t, err, outbox.OutcomeRetry); !v.At.IsZero() || v.RetryAfter != 0 {
		t.Errorf("%+v, want no time", v)
	}
	if got := msg.Metadata.Get(delay.DelayedForKey); got != "1m0s" {
		t.Errorf("metadata %s is %q, want 1m0s", delay.DelayedForKey, got)
	}
}

// IgnoreErrors compares texts. Inside Retry it sees the handler's; outside, the
// decision's, which it does not know.
func TestStockIgnoreErrorsBelongsInsideRetry(t *testing.T) {
	t.Parallel()
	ignore := stock.NewIgnoreErrors([]error{errors.New("boom")}).Middleware
	for _, in := range []error{errBoom, outbox.Permanent(errBoom), outbox.Unavailable(errBoom, 0)} {
		_, err := chain(failing(in), steady.Middleware, ignore)(newMessage(onLane(1)))
		wantVerdict(t, err, outbox.OutcomeDelivered)
	}
	_, err := chain(failing(errBoom), ignore, steady.Middleware)(newMessage(onLane(1)))
	wantVerdict(t, err, outbox.OutcomeRetry)
}

// Middleware that returns errors as they came changes no verdict.
func TestStockThatPassesErrorsOn(t *testing.T) {
	t.Parallel()
	decided := outbox.RetryAt(time.Now(), errBoom)
	for name, mw := range map[string]message.HandlerMiddleware{
		"CorrelationID": stock.CorrelationID,
		"Timeout":       stock.Timeout(time.Minute),
		"Recoverer":     stock.Recoverer,
	} {
		for _, in := range []error{nil, errBoom, decided, outbox.Skip("duplicate"), outbox.Gone(errBoom)} {
			if _, err := chain(failing(in), mw)(newMessage(onLane(1))); err != in { //nolint:errorlint // identity is the point
				t.Errorf("%s: %v became %v", name, in, err)
			}
		}
	}
}

// A panic is a transient failure, and its stack trace is in the error's text.
func TestStockRecovererMakesPanicsTransient(t *testing.T) {
	t.Parallel()
	_, err := chain(explode, middleware.Retry{}.Middleware, stock.Recoverer)(newMessage(onLane(1)))
	if v := wantVerdict(t, err, outbox.OutcomeRetry); v.At.IsZero() {
		t.Error("no time for the next attempt")
	}
	if !strings.Contains(err.Error(), "main_test.go") {
		t.Errorf("no stack trace in %q", err)
	}
}
