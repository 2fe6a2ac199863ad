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
		"nil":                   {nil, outbox.Verdict{Outcome: outbox.Delivered}},
		"plain":                 {errCause, outbox.Verdict{Outcome: outbox.Retry}},
		"transient":             {outbox.Transient(errCause, time.Second), outbox.Verdict{Outcome: outbox.Retry, RetryAfter: time.Second}},
		"unavailable":           {outbox.Unavailable(errCause, time.Minute), outbox.Verdict{Outcome: outbox.Unreachable, RetryAfter: time.Minute}},
		"gone":                  {outbox.Gone(errCause), outbox.Verdict{Outcome: outbox.Unreachable, Gone: true}},
		"permanent":             {outbox.Permanent(errCause), outbox.Verdict{Outcome: outbox.Dead}},
		"released":              {outbox.Released(errCause), outbox.Verdict{Outcome: outbox.Put}},
		"skip":                  {outbox.Skip("duplicate"), outbox.Verdict{Outcome: outbox.Skipped, Reason: "duplicate"}},
		"wrapped skip":          {wrap(outbox.Skip("filtered")), outbox.Verdict{Outcome: outbox.Skipped, Reason: "filtered"}},
		"wrapped permanent":     {wrap(outbox.Permanent(errCause)), outbox.Verdict{Outcome: outbox.Dead}},
		"outer kind wins":       {outbox.Permanent(outbox.Transient(errCause, 0)), outbox.Verdict{Outcome: outbox.Dead}},
		"unknown kind":          {&outbox.Error{Kind: 99, Err: errCause}, outbox.Verdict{Outcome: outbox.Retry}},
		"retry at":              {outbox.RetryAt(at, errCause), outbox.Verdict{Outcome: outbox.Retry, At: at}},
		"retry at of permanent": {wrap(outbox.RetryAt(at, outbox.Permanent(errCause))), outbox.Verdict{Outcome: outbox.Retry, At: at}},
		"kind around decision":  {outbox.Transient(outbox.Bury(errCause, false), 0), outbox.Verdict{Outcome: outbox.Dead}},
		"outer decision wins":   {outbox.Bury(outbox.RetryAt(at, errCause), true), outbox.Verdict{Outcome: outbox.Dead, Hold: true}},
		"exhausted":             {outbox.Exhaust(errCause), outbox.Verdict{Outcome: outbox.Dead, Exhausted: true}},
		"buried":                {outbox.Bury(errCause, false), outbox.Verdict{Outcome: outbox.Dead}},
		"breaker open":          {wrap(gobreaker.ErrOpenState), outbox.Verdict{Outcome: outbox.Unreachable}},
		"breaker half open":     {gobreaker.ErrTooManyRequests, outbox.Verdict{Outcome: outbox.Unreachable}},
		"breaker v2 open":       {wrap(breaker.ErrOpenState), outbox.Verdict{Outcome: outbox.Unreachable}},
		"breaker v2 half open":  {breaker.ErrTooManyRequests, outbox.Verdict{Outcome: outbox.Unreachable}},
		"cancelled":             {wrap(context.Canceled), outbox.Verdict{Outcome: outbox.Put}},
		"deadline":              {wrap(context.DeadlineExceeded), outbox.Verdict{Outcome: outbox.Retry}},
		"cancelled, with kind":  {outbox.Transient(context.Canceled, 0), outbox.Verdict{Outcome: outbox.Retry}},
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
		"cause":                                        &outbox.Decision{Verdict: outbox.Verdict{Outcome: outbox.Put, Err: errCause}},
	} {
		if err.Error() != want || !errors.Is(err, errCause) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	for o, want := range map[outbox.Outcome]string{
		outbox.Delivered: "delivered", outbox.Skipped: "skipped", outbox.Retry: "retry", outbox.Unreachable: "unavailable",
		outbox.Dead: "dead", outbox.Put: "released", outbox.Outcome(42): "outcome(42)",
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
