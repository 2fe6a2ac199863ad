package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sony/gobreaker"
	breaker "github.com/sony/gobreaker/v2"

	"github.com/outriderhq/outrider/outbox"
)

var (
	errCause = errors.New("cause")
	at       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// The failure table of the design, line by line, and who wins when errors are
// wrapped in each other.
func TestVerdictOf(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("middleware: %w", err) }
	for name, tt := range map[string]struct {
		err  error
		want outbox.Verdict
	}{
		"nil":                   {nil, outbox.Verdict{Outcome: outbox.OutcomeDelivered}},
		"plain":                 {errCause, outbox.Verdict{Outcome: outbox.OutcomeRetry}},
		"transient":             {outbox.Transient(errCause, time.Second), outbox.Verdict{Outcome: outbox.OutcomeRetry, RetryAfter: time.Second}},
		"unavailable":           {outbox.Unavailable(errCause, time.Minute), outbox.Verdict{Outcome: outbox.OutcomeUnavailable, RetryAfter: time.Minute}},
		"gone":                  {outbox.Gone(errCause), outbox.Verdict{Outcome: outbox.OutcomeUnavailable, Gone: true}},
		"permanent":             {outbox.Permanent(errCause), outbox.Verdict{Outcome: outbox.OutcomeDead}},
		"released":              {outbox.Released(errCause), outbox.Verdict{Outcome: outbox.OutcomeReleased}},
		"skip":                  {outbox.Skip("duplicate"), outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: "duplicate"}},
		"wrapped skip":          {wrap(outbox.Skip("filtered")), outbox.Verdict{Outcome: outbox.OutcomeSkipped, Reason: "filtered"}},
		"wrapped permanent":     {wrap(outbox.Permanent(errCause)), outbox.Verdict{Outcome: outbox.OutcomeDead}},
		"outer kind wins":       {outbox.Permanent(outbox.Transient(errCause, 0)), outbox.Verdict{Outcome: outbox.OutcomeDead}},
		"unknown kind":          {&outbox.Error{Kind: 99, Err: errCause}, outbox.Verdict{Outcome: outbox.OutcomeRetry}},
		"retry at":              {outbox.RetryAt(at, errCause), outbox.Verdict{Outcome: outbox.OutcomeRetry, At: at}},
		"retry at of permanent": {wrap(outbox.RetryAt(at, outbox.Permanent(errCause))), outbox.Verdict{Outcome: outbox.OutcomeRetry, At: at}},
		"kind around decision":  {outbox.Transient(outbox.DeadLetter(errCause, false), 0), outbox.Verdict{Outcome: outbox.OutcomeDead}},
		"outer decision wins":   {outbox.DeadLetter(outbox.RetryAt(at, errCause), true), outbox.Verdict{Outcome: outbox.OutcomeDead, Hold: true}},
		"exhausted":             {outbox.Exhaust(errCause), outbox.Verdict{Outcome: outbox.OutcomeDead, Exhausted: true}},
		"dead letter":           {outbox.DeadLetter(errCause, false), outbox.Verdict{Outcome: outbox.OutcomeDead}},
		"breaker open":          {wrap(gobreaker.ErrOpenState), outbox.Verdict{Outcome: outbox.OutcomeUnavailable}},
		"breaker half open":     {gobreaker.ErrTooManyRequests, outbox.Verdict{Outcome: outbox.OutcomeUnavailable}},
		"breaker v2 open":       {wrap(breaker.ErrOpenState), outbox.Verdict{Outcome: outbox.OutcomeUnavailable}},
		"breaker v2 half open":  {breaker.ErrTooManyRequests, outbox.Verdict{Outcome: outbox.OutcomeUnavailable}},
		"cancelled":             {wrap(context.Canceled), outbox.Verdict{Outcome: outbox.OutcomeReleased}},
		"deadline":              {wrap(context.DeadlineExceeded), outbox.Verdict{Outcome: outbox.OutcomeRetry}},
		"cancelled, with kind":  {outbox.Transient(context.Canceled, 0), outbox.Verdict{Outcome: outbox.OutcomeRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outbox.VerdictOf(tt.err)
			tt.want.Err = tt.err // the whole chain is kept, for logs
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestDecisionsNameTheirCauseAndUnwrapToIt(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"cause (next attempt at 2026-01-02T03:04:05Z)": outbox.RetryAt(at.In(time.FixedZone("", 3600)), errCause),
		"cause (no further attempts)":                  outbox.Exhaust(errCause),
		"cause":                                        &outbox.Decision{Verdict: outbox.Verdict{Outcome: outbox.OutcomeReleased, Err: errCause}},
	} {
		if err.Error() != want || !errors.Is(err, errCause) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	for o, want := range map[outbox.Outcome]string{
		outbox.OutcomeDelivered: "delivered", outbox.OutcomeSkipped: "skipped", outbox.OutcomeRetry: "retry", outbox.OutcomeUnavailable: "unavailable",
		outbox.OutcomeDead: "dead", outbox.OutcomeReleased: "released", outbox.Outcome(42): "outcome(42)",
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
