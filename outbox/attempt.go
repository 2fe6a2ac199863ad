package outbox

import "context"

// Attempt is what middleware can learn about the attempt that it is part of.
type Attempt struct {
	Route  string // name of the route
	Lane   string // "route/slot"
	Number int    // 1 for the first attempt; only attempts that counted are counted
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
