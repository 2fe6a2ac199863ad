package outbox

import (
	"context"

	"github.com/outriderhq/outrider/internal/lanectx"
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

// AttemptOf returns the attempt of a message on a route, from the message's
// context. Outside of a lane (a middleware used alone in an application's Watermill
// router) ok is false.
func AttemptOf(ctx context.Context) (a Attempt, ok bool) {
	p, ok := ctx.Value(lanectx.Attempt).(*Attempt)
	if !ok {
		return Attempt{}, false
	}
	return *p, true
}

// DeliveredOf reports whether the destination has taken a message on a route,
// from the message's context. That is not the same as a chain that returns no
// error: a middleware further in may have kept the message, or failed after the
// delivery. Outside of a lane known is false.
func DeliveredOf(ctx context.Context) (delivered, known bool) {
	delivered, known = ctx.Value(lanectx.Delivered).(bool)
	return delivered, known
}
