// Package listeners is a destination of functions of the program: each event of a route goes to the functions registered for its type.
//
//	registry := listeners.New()
//	listeners.Listen(registry, "order.created", func(ctx context.Context, order Order) error {
//	    return ship(ctx, order)
//	})
//	relay, err := outrider.New(cfg, outrider.WithListeners("app", registry)) // destinations: {app: {type: listeners}}
//
// # Selection and order
//
// A listener names an event type and, with [OfAggregate], an aggregate type; [Any] means all of either. Those that match an
// event run one after the other: both named first, then those for any aggregate, then those for any event type of the aggregate, then
// those for everything; among equals the one that was registered first. An event without a listener is delivered.
//
// # Failures
//
// An event is delivered when all of its listeners have returned nil. The first one that fails ends the attempt, and the next attempt begins with the
// first listener again, so listeners must tolerate an event twice: compare its id, or give the listener a deduplicating middleware ([With]). A
// listener that panics fails the attempt. A payload that cannot be decoded is dead at once. A listener can return an error of another kind:
// [outbox.Permanent], [outbox.Transient] with a delay, [outbox.Unavailable], which pauses the destination without counting attempts (listeners that
// need that get a route of their own). Any other error counts an attempt of this event alone.
//
// # Concurrency
//
// Listeners run on the workers of the destination, 4 by default, and a worker is busy until the listener returns: slow listeners slow the
// route down and nothing piles up in memory. Events of a group run one at a time, in order. The context ends with the route's timeout and
// when the relay loses the lane; a listener must observe it, because Go functions cannot be ended from outside.
package listeners
