// Package middleware has the middleware of routes: [Retry], [Poison] and [Timeout]
// handle failed attempts, [Throttle] and [Breaker] limit the flow of messages,
// [Dedupe] skips duplicates, [Tracing] and [Metrics] observe. Each is a plain
// Watermill message.HandlerMiddleware:
//
//	router.AddMiddleware(
//		middleware.Poison{Publisher: publisher, Topic: "poison"}.Middleware,
//		middleware.Retry{Attempts: 5}.Middleware,
//		middleware.Timeout{Limit: 10 * time.Second}.Middleware,
//	)
//
// The first added is the outermost. Metrics, Tracing and Dedupe belong
// outermost. Poison belongs outside Retry, because it acts on what Retry gave up;
// Timeout belongs inside, because it limits one attempt; Throttle belongs outside
// Timeout, or the wait for a turn uses up the attempt's time; Breaker belongs
// innermost, because it counts deliveries. docs/middleware.md has more.
//
// All are also a [Layer], which declares whether it acts before a delivery or only
// uses the result.
//
// # On a lane and elsewhere
//
// On one of Outrider's routes a middleware finds an [outbox.Attempt] in the
// message's context. There it only decides, by the error that it returns
// ([outbox.VerdictOf] reads it); waiting, storing and acknowledging are the
// lane's, durably. In any other Watermill router verdicts have no reader, so
// the same middleware does the work itself: Retry sleeps, Poison publishes.
//
// Zero fields mean the documented defaults. Validate reports all invalid
// values; without it they count as the default.
//
// The package knows no destination and no table. Between messages it keeps only
// the tokens of a Throttle, the counts of a Breaker and, without a store, the ids
// of a Dedupe. Its only goroutine is that of a store's call ([Coalesce]), which
// ends with it.
package middleware
