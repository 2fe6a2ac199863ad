package outbox

import (
	"context"
	"time"
)

// Attempt is what middleware can learn about the attempt that it is part of.
type Attempt struct {
	Route  string // name of the route
	Lane   string // "route/slot"
	Number int    // 1 for the first attempt; only attempts that counted are counted

	// Place grows in the order in which messages entered the lanes of this
	// process. A message never waits at a gate for one with a greater place; who
	// makes messages wait for each other must not let them do so either.
	Place uint64
}

// attemptKey is the context key under which lanes keep the attempt.
type attemptKey struct{}

// AttemptKey is the key under which a lane's message context answers with a
// *[Attempt]. It is exported for the router; middleware calls [AttemptOf].
var AttemptKey any = attemptKey{}

// AttemptOf returns the attempt of a message on a route, from the message's
// context. Outside of a lane (a middleware used alone in somebody's Watermill
// router) ok is false.
func AttemptOf(ctx context.Context) (a Attempt, ok bool) {
	p, ok := ctx.Value(AttemptKey).(*Attempt)
	if !ok {
		return Attempt{}, false
	}
	return *p, true
}

// deliveredKey is the context key under which lanes tell of the delivery.
type deliveredKey struct{}

// DeliveredKey is the key under which a lane's message context answers with a
// bool. It is exported for the router; middleware calls [DeliveredOf].
var DeliveredKey any = deliveredKey{}

// DeliveredOf tells whether the destination has taken a message on a route,
// from the message's context. That is not the same as a chain that returns no
// error: a middleware further in may have kept the message, or failed after the
// delivery. Outside of a lane known is false.
func DeliveredOf(ctx context.Context) (delivered, known bool) {
	delivered, known = ctx.Value(DeliveredKey).(bool)
	return delivered, known
}

// limitKey is the context key under which a timeout keeps its limit.
type limitKey struct{}

// LimitKey is the key under which the context of a limited attempt answers
// with a [time.Duration]. It is exported for the timeout middleware; lanes call
// [LimitOf].
var LimitKey any = limitKey{}

// LimitOf returns how long one attempt's delivery may take, from the message's
// context; ok is false when nothing limits it. A lane applies the limit to the
// delivery itself: the time that a message waits for its turn behind others is
// not counted, although the context's own deadline, which is for the
// middleware inside the timeout, runs on while it waits.
func LimitOf(ctx context.Context) (limit time.Duration, ok bool) {
	limit, ok = ctx.Value(LimitKey).(time.Duration)
	return limit, ok
}

// Quiet is implemented by contexts of which a lane knows, or would learn
// otherwise, when they end: its own, and those that only limit the attempt. A
// message with such a context waits for its turn without listening to Done,
// which would arm a timer for every message.
type Quiet interface {
	// Quiet tells whether Done need not be listened to.
	Quiet() bool
}

// IsQuiet tells whether the context is [Quiet].
func IsQuiet(ctx context.Context) bool {
	q, ok := ctx.(Quiet)
	return ok && q.Quiet()
}
