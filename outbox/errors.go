package outbox

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error by what it says about the message and its address.
// Whether and when to try again follows from the kind alone.
type Kind int

// The kinds of errors; an error without one is transient.
const (
	// KindTransient: this attempt failed, another may succeed (a timeout,
	// status 500 or 408). The attempt counts.
	KindTransient Kind = iota
	// KindUnavailable: the address cannot be reached or takes nothing now
	// (connection refused, 503, 429, unknown topic). The attempt does not count;
	// the address is paused and probed.
	KindUnavailable
	// KindGone: the address asked not to be used again (410). The attempt does
	// not count; the address is disabled until an operator resumes it.
	KindGone
	// KindPermanent: no attempt will succeed (rejected or oversized payload,
	// cannot be decoded). The message is dead at once.
	KindPermanent
	// KindReleased: not attempted, or called off by us. Nothing counts, the
	// message keeps its place.
	KindReleased
	// KindSkip: not to be delivered (duplicate, filtered). Counted by reason.
	KindSkip
)

// String returns the kind's name as logs, metrics and parked rows use it.
func (k Kind) String() string {
	switch k {
	case KindTransient:
		return "transient"
	case KindUnavailable:
		return "unavailable"
	case KindGone:
		return "gone"
	case KindPermanent:
		return "permanent"
	case KindReleased:
		return "released"
	case KindSkip:
		return "skip"
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Error is an error with its kind. Build one with [Transient], [Unavailable],
// [Gone], [Permanent], [Released] or [Skip].
type Error struct {
	Kind Kind
	Err  error

	// RetryAfter is the least delay that the receiver asked for; 0: none.
	RetryAfter time.Duration

	// Outage tells of a KindUnavailable that the failures before it were the
	// address's fault too: the attempts that they cost are given back.
	Outage bool

	// Answered tells of a KindTransient that the receiver answered, and refused
	// what it was sent: the attempt counts for every message of the batch, and
	// however many groups it happens to, it is no sign that the address is down.
	Answered bool

	// Code is what the receiver calls the failure, a word of a small set. Empty: it has none.
	Code string
}

// Error returns the text of the wrapped error: the kind is for machines.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Kind.String() + " failure without a reason"
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Transient marks an error as worth another attempt, no sooner than retryAfter
// from now (0: as the route's backoff says).
func Transient(err error, retryAfter time.Duration) error {
	return &Error{Kind: KindTransient, Err: err, RetryAfter: retryAfter}
}

// Unavailable says that nothing can be delivered to the message's address now;
// the next probe comes no sooner than retryAfter (0: as the backoff says).
func Unavailable(err error, retryAfter time.Duration) error {
	return &Error{Kind: KindUnavailable, Err: err, RetryAfter: retryAfter}
}

// Gone says that the message's address asked not to be used again.
func Gone(err error) error { return &Error{Kind: KindGone, Err: err} }

// Permanent says that no attempt with this message can succeed.
func Permanent(err error) error { return &Error{Kind: KindPermanent, Err: err} }

// Released says that the message was not attempted and keeps its place.
func Released(err error) error { return &Error{Kind: KindReleased, Err: err} }

// Skip says that the message is not to be delivered and why, in one or two
// words: the reason is a metric label, so it must come from a small set.
func Skip(reason string) error {
	return &Error{Kind: KindSkip, Err: errors.New(reason)}
}

// AnsweredBy reports whether an error is a transient one that the receiver
// answered with, see [Error.Answered].
func AnsweredBy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == KindTransient && e.Answered
}

// KindOf returns the kind of an error. One that carries none is transient,
// unless it is a known error of others: an open breaker or a cancelled context.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return foreignKind(err)
}
