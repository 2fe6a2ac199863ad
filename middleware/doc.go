// Package middleware holds the middleware that decides what a failed attempt
// means and how fast messages may flow: [Retry], [Poison], [Timeout] and
// [Throttle]. Each is a plain Watermill message.HandlerMiddleware:
//
//	router.AddMiddleware(
//		middleware.Poison{Publisher: publisher, Topic: "poison"}.Middleware,
//		middleware.Retry{Attempts: 5}.Middleware,
//		middleware.Timeout{Limit: 10 * time.Second}.Middleware,
//	)
//
// The first added is the outermost. Poison belongs outside Retry, because it
// acts on what Retry gave up; Timeout belongs inside, because it limits one
// attempt; Throttle belongs outside Timeout, or the wait for a turn uses up
// the attempt's time.
//
// # On a lane and elsewhere
//
// On one of Outrider's routes a middleware finds an [outbox.Attempt] in the
// message's context. There it only decides, by the error that it returns
// ([outbox.VerdictOf] reads it); waiting, storing and acknowledging are the
// lane's, durably. In any other Watermill router nobody reads verdicts, so
// the same middleware does the work itself: Retry sleeps, Poison publishes.
//
// Zero fields mean the documented defaults. Validate reports the values that
// make no sense, all at once; without it they are taken as the default.
//
// What the package is not: it knows no destination and no table, starts no
// goroutine of its own and keeps nothing between messages, except for the
// tokens of a Throttle.
package middleware
