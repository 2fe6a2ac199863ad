package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker"
	breaker "github.com/sony/gobreaker/v2"
)

// Outcome is the result of an attempt for a message.
type Outcome int

// The outcomes.
const (
	OutcomeDelivered   Outcome = iota // taken by the destination
	OutcomeSkipped                    // not to be delivered
	OutcomeRetry                      // again at a time; the attempt counted
	OutcomeUnavailable                // keeps its place until the address is back; nothing counted
	OutcomeDead                       // taken out of the stream for an operator
	OutcomeReleased                   // back to its place; nothing counted
)

// String returns the outcome's name as logs and metrics use it.
func (o Outcome) String() string {
	switch o {
	case OutcomeDelivered:
		return "delivered"
	case OutcomeSkipped:
		return "skipped"
	case OutcomeRetry:
		return "retry"
	case OutcomeUnavailable:
		return "unavailable"
	case OutcomeDead:
		return "dead"
	case OutcomeReleased:
		return "released"
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Verdict is an outcome with the values needed to settle it.
type Verdict struct {
	Outcome Outcome
	Err     error // nil when delivered

	// At is when to retry. Zero: the router's own backoff decides (a route
	// without retry middleware).
	At time.Time

	// RetryAfter is the least delay that the receiver asked for.
	RetryAfter time.Duration

	// Reason of a skipped message.
	Reason string

	// Hold makes the group of a dead message wait for an operator.
	Hold bool

	// Exhausted: the message is dead because its attempts are used up. The
	// router gives such attempts back if the address failed.
	Exhausted bool
	// Attempts is the number of attempts, if the middleware counts them:
	// outside of a lane. 0: unknown.
	Attempts int

	// Outage gives back the attempts that failed at the address since its last
	// success (OutcomeUnavailable only).
	Outage bool

	// Gone disables the address until an operator resumes it (OutcomeUnavailable only).
	Gone bool
}

// Decision is an error by which a middleware sets the verdict of a message;
// retry for example sets the time of the next attempt. It unwraps to the cause.
type Decision struct{ Verdict }

// Error returns the decision and its cause.
func (d *Decision) Error() string {
	switch d.Outcome {
	case OutcomeRetry:
		return fmt.Sprintf("%v (next attempt at %s)", d.Err, d.At.UTC().Format(time.RFC3339Nano))
	case OutcomeDead:
		return fmt.Sprintf("%v (no further attempts)", d.Err)
	default:
		return fmt.Sprint(d.Err)
	}
}

// Unwrap returns the cause.
func (d *Decision) Unwrap() error { return d.Err }

// RetryAt returns the decision to attempt the message again at t.
func RetryAt(t time.Time, cause error) error {
	return &Decision{Verdict{Outcome: OutcomeRetry, Err: cause, At: t}}
}

// Exhaust returns the decision that the message is dead because its last
// attempt failed.
func Exhaust(cause error) error {
	return &Decision{Verdict{Outcome: OutcomeDead, Err: cause, Exhausted: true}}
}

// DeadLetter returns the decision that the message is dead; with hold, its group
// waits for an operator, otherwise the group continues.
func DeadLetter(cause error, hold bool) error {
	return &Decision{Verdict{Outcome: OutcomeDead, Err: cause, Hold: hold}}
}

// VerdictOf returns the verdict for an error returned by a middleware chain.
// The outermost [Decision] wins, then the error's kind.
func VerdictOf(err error) Verdict {
	if err == nil {
		return Verdict{Outcome: OutcomeDelivered}
	}
	if d, ok := errors.AsType[*Decision](err); ok {
		v := d.Verdict
		v.Err = err
		return v
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Kind: foreignKind(err)}
	}
	v := Verdict{Err: err, RetryAfter: e.RetryAfter, Outage: e.Outage && e.Kind == KindUnavailable}
	switch e.Kind {
	case KindSkip:
		v.Outcome, v.Reason = OutcomeSkipped, e.Error()
	case KindReleased:
		v.Outcome = OutcomeReleased
	case KindUnavailable:
		v.Outcome = OutcomeUnavailable
	case KindGone:
		v.Outcome, v.Gone = OutcomeUnavailable, true
	case KindPermanent:
		v.Outcome = OutcomeDead
	default:
		v.Outcome = OutcomeRetry
	}
	return v
}

// foreignKind classifies errors of others: the breaker of Watermill's
// CircuitBreaker and its successor, and contexts that were cancelled (by us:
// nothing else holds the message). A deadline is an attempt like any other.
func foreignKind(err error) Kind {
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests),
		errors.Is(err, breaker.ErrOpenState), errors.Is(err, breaker.ErrTooManyRequests):
		return KindUnavailable
	case errors.Is(err, context.Canceled):
		return KindReleased
	default:
		return KindTransient
	}
}
