package outbox

import (
	"context"

	"github.com/outriderhq/outrider/internal/lanectx"
)

// Attempt describes the current attempt of a message for middleware.
type Attempt struct {
	Route  string // name of the route
	Lane   string // "route/slot"
	Number int    // 1 for the first attempt; only attempts that counted are counted

	// Place grows in the order in which messages entered the lanes of this
	// process. A message never waits at a gate for one with a greater place;
	// middleware that makes messages wait for each other must observe this too.
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

// DeliveredOf reports whether the destination has accepted a message on a
// route, from the message's context. A chain without an error does not imply
// that: an inner middleware may have dropped the message, or failed after the
// delivery. Outside of a lane known is false.
func DeliveredOf(ctx context.Context) (delivered, known bool) {
	delivered, known = ctx.Value(lanectx.Delivered).(bool)
	return delivered, known
}
