package outbox

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error by its meaning for the message and its address. It
// alone determines whether and when to retry.
type Kind int

// The kinds of errors; an error without one is transient.
const (
	// KindTransient: this attempt failed, another may succeed (a timeout,
	// status 500 or 408). The attempt counts.
	KindTransient Kind = iota
	// KindUnavailable: the address cannot be reached or accepts nothing now
	// (connection refused, 503, 429, unknown topic). The attempt does not count;
	// the address is paused and probed.
	KindUnavailable
	// KindGone: the address asked not to be used again (410). The attempt does
	// not count; the address is disabled until an operator resumes it.
	KindGone
	// KindPermanent: no attempt will succeed (rejected or oversized payload,
	// cannot be decoded). The message is dead at once.
	KindPermanent
	// KindReleased: not attempted, or cancelled by Outrider. No attempt counts,
	// and the message keeps its place.
	KindReleased
	// KindSkip: should not be delivered (duplicate, filtered). Counted by
	// reason.
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

	// Outage reports for a KindUnavailable that the address also caused the
	// failures before it: their attempts are given back.
	Outage bool

	// Answered reports that the receiver answered and refused the request. For a
	// KindTransient the attempt counts for every message of the batch, and never
	// indicates that the address is down; nor does a KindPermanent. A KindUnavailable
	// or KindGone becomes a failed attempt of the message if messages of other groups
	// are delivered meanwhile.
	Answered bool

	// Code is the receiver's name for the failure, a word of a small set. Empty: none.
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

// Transient returns an error of [KindTransient]: another attempt may succeed,
// no sooner than retryAfter from now (0: by the route's backoff).
func Transient(err error, retryAfter time.Duration) error {
	return &Error{Kind: KindTransient, Err: err, RetryAfter: retryAfter}
}

// Unavailable returns an error of [KindUnavailable]: the message's address
// accepts nothing now. The next probe comes no sooner than retryAfter (0: by
// the backoff).
func Unavailable(err error, retryAfter time.Duration) error {
	return &Error{Kind: KindUnavailable, Err: err, RetryAfter: retryAfter}
}

// Gone returns an error of [KindGone]: the address asked not to be used again.
func Gone(err error) error { return &Error{Kind: KindGone, Err: err} }

// Permanent returns an error of [KindPermanent]: no attempt with this message
// can succeed.
func Permanent(err error) error { return &Error{Kind: KindPermanent, Err: err} }

// Released returns an error of [KindReleased]: the message was not attempted
// and keeps its place.
func Released(err error) error { return &Error{Kind: KindReleased, Err: err} }

// Skip returns an error of [KindSkip]: the message should not be delivered. The
// reason is one or two words from a small set, because it is a metric label.
func Skip(reason string) error {
	return &Error{Kind: KindSkip, Err: errors.New(reason)}
}

// AnsweredBy reports whether err is a transient or permanent error from a response of the
// receiver, see [Error.Answered]: its address is there.
func AnsweredBy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Kind == KindTransient || e.Kind == KindPermanent) && e.Answered
}

// KindOf returns the kind of an error. An error without a kind is transient,
// unless it is a known error of another package: an open breaker or a cancelled
// context.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return foreignKind(err)
}
