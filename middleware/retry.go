package middleware

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// The defaults of [Retry].
const (
	DefaultAttempts = 10
	DefaultBase     = 200 * time.Millisecond
	DefaultMax      = 60 * time.Second
	DefaultFactor   = 2.0
	DefaultJitter   = 0.5
)

// NoJitter is the value of [Retry.Jitter] for delays without any randomness.
const NoJitter = -1.0

// Retry attempts a message again after a transient failure, with growing delays. It never waits for less than the receiver asked for
// (Retry-After).
//
// On a lane it runs the chain once and returns when the next attempt is due ([outbox.RetryAt]), or, after the last one, that there is none
// ([outbox.Exhaust]). It leaves other results alone: skipped, released and dead messages, those that have a time already, and failures of an
// address, which cost no attempt.
//
// Elsewhere it sleeps between the attempts. There it also repeats messages that failed because an address was unavailable. Permanent failures,
// addresses that are gone and releases are returned at once. A message that is to be skipped ends as handled (nil): an error would bring it
// back forever. After the last attempt, or when the deadline of the message's context ends the wait for the next one, the error is the same
// [outbox.Exhaust] as on a lane; it wraps the last failure, so errors.Is and errors.As work as without Retry. But if some of the attempts met an
// unavailable address, the last failure is returned as it is: an outage makes no message dead. Every attempt starts with the context that the
// message came with.
//
// A failure after that context was cancelled says nothing about the message: it is released ([outbox.KindReleased]).
type Retry struct {
	// Attempts is the number of attempts, counting the first. 0: 10.
	Attempts int

	// Base is the delay after the first attempt, before jitter. 0: 200 ms.
	Base time.Duration

	// Max caps the delay before jitter, so that messages whose delays have reached it stay spread out: with the default jitter the longest
	// delay is 1.5 times Max. 0: 60 s.
	Max time.Duration

	// Factor is what the delay is multiplied by from one attempt to the next, 1 or more. 0: 2.
	Factor float64

	// Linear makes the delay Base times the number of attempts so far, in place of Factor.
	Linear bool

	// Jitter spreads delays: each is multiplied by a random number between 1-Jitter and 1+Jitter. At most 1. 0: 0.5; [NoJitter]: none.
	Jitter float64
}

// Validate returns an error that names every wrong field and what it may be.
func (r Retry) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("retry: "+format, args...))
	}
	if r.Attempts < 0 {
		wrong("attempts is %d: give 1 or more", r.Attempts)
	}
	if r.Base < 0 {
		wrong("base is %v: give a duration above 0", r.Base)
	}
	if r.Max < 0 {
		wrong("max is %v: give a duration above 0", r.Max)
	}
	if r.Factor != 0 && !between(r.Factor, 1, math.MaxFloat64) {
		wrong("factor is %v: give a number of 1 or more", r.Factor)
	}
	if r.Jitter != NoJitter && !between(r.Jitter, 0, 1) {
		wrong("jitter is %v: give a number between 0 and 1", r.Jitter)
	}
	if d := r.withDefaults(); len(errs) == 0 && d.Base > d.Max {
		wrong("base is %v, longer than max, which is %v: raise max or lower base", d.Base, d.Max)
	}
	return errors.Join(errs...)
}

// Middleware returns the handler with retries around it.
func (r Retry) Middleware(h message.HandlerFunc) message.HandlerFunc {
	r = r.withDefaults()
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context() // middleware further in may leave another one
		produced, err := h(msg)
		if err == nil {
			return produced, nil
		}
		if attempt, ok := outbox.AttemptOf(ctx); ok {
			return produced, r.decide(ctx, attempt.Number, err)
		}
		return r.inProcess(ctx, msg, h, produced, err)
	}
}

// AfterDelivery is the marker of a [Layer]: retry uses the result only.
func (Retry) AfterDelivery() {}

// decide turns the failure of a lane's attempt into the time of the next one or into the end.
func (r Retry) decide(ctx context.Context, number int, err error) error {
	v := outbox.VerdictOf(err)
	switch {
	case v.Outcome != outbox.OutcomeRetry, !v.At.IsZero():
		return err
	case calledOff(ctx):
		return r.release(ctx, number, err)
	case number >= r.Attempts:
		return r.exhaust(number, err)
	}
	return outbox.RetryAt(time.Now().Add(r.wait(number, v)), err)
}

// inProcess repeats a failed first attempt outside of a lane.
func (r Retry) inProcess(
	ctx context.Context, msg *message.Message, h message.HandlerFunc,
	produced []*message.Message, err error,
) ([]*message.Message, error) {
	outage := false
	for number := 1; err != nil; number++ {
		v := outbox.VerdictOf(err)
		switch {
		case v.Outcome == outbox.OutcomeSkipped:
			return nil, nil
		case v.Outcome == outbox.OutcomeUnavailable && !v.Gone:
			outage = true
		case v.Outcome != outbox.OutcomeRetry:
			return produced, err
		}
		last := number >= r.Attempts
		if !last {
			sleep(ctx, r.wait(number, v))
		}
		switch {
		case calledOff(ctx):
			return produced, r.release(ctx, number, err)
		case !last && ctx.Err() == nil:
			msg.SetContext(ctx)
			produced, err = h(msg)
		case outage:
			return produced, err
		default:
			return produced, r.exhaust(number, err)
		}
	}
	return produced, nil
}

func (r Retry) release(ctx context.Context, number int, err error) error {
	return outbox.Released(fmt.Errorf("retry: called off after attempt %d of %d: %w: %w",
		number, r.Attempts, ctx.Err(), err))
}

func (r Retry) exhaust(number int, err error) error {
	return &outbox.Decision{Verdict: outbox.Verdict{Outcome: outbox.OutcomeDead, Exhausted: true, Attempts: number,
		Err: fmt.Errorf("attempt %d of %d: %w", number, r.Attempts, err)}}
}

// wait returns how long to wait after the attempt with the given number: until the time that a layer further in has decided, else the
// backoff or, if longer, what the receiver asked for.
func (r Retry) wait(number int, v outbox.Verdict) time.Duration {
	if !v.At.IsZero() {
		return time.Until(v.At)
	}
	return max(r.backoff(number), v.RetryAfter)
}

// Delay returns how long to wait after the attempt with the given number, from 1: the backoff alone, with its jitter.
func (r Retry) Delay(number int) time.Duration { return r.withDefaults().backoff(number) }

// backoff is Delay with the defaults in place. It is not cenkalti/backoff's, which Watermill uses: that one keeps the current interval inside,
// while a lane only knows the attempt's number, perhaps after a restart.
func (r Retry) backoff(number int) time.Duration {
	number = max(number, 1)
	delay := float64(r.Base)
	if r.Linear {
		delay *= float64(number)
	} else {
		delay *= math.Pow(r.Factor, float64(number-1))
	}
	delay = min(delay, float64(r.Max))
	if r.Jitter > 0 {
		delay *= 1 - r.Jitter + 2*r.Jitter*rand.Float64() //nolint:gosec // spreads load, guards nothing
	}
	return nanoseconds(delay)
}

// withDefaults returns the policy with defaults in place of zero and wrong values.
func (r Retry) withDefaults() Retry {
	r.Attempts = positive(r.Attempts, DefaultAttempts)
	r.Base = positive(r.Base, DefaultBase)
	r.Max = positive(r.Max, DefaultMax)
	if !between(r.Factor, 1, math.MaxFloat64) {
		r.Factor = DefaultFactor
	}
	if r.Jitter == 0 || r.Jitter != NoJitter && !between(r.Jitter, 0, 1) {
		r.Jitter = DefaultJitter
	}
	return r
}

// positive returns v, or the default if v is zero or negative.
func positive[N int | time.Duration](v, otherwise N) N {
	if v > 0 {
		return v
	}
	return otherwise
}

// calledOff reports whether the context was cancelled, other than by its deadline.
func calledOff(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// sleep waits for the duration or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// nanoseconds converts to a duration, at most the longest one: Go does not define the conversion of larger values.
func nanoseconds(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// between reports whether low <= x <= high; NaN never is.
func between(x, low, high float64) bool { return x >= low && x <= high }
