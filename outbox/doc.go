// Package outbox is what applications and authors of middleware import. An
// application builds an [Envelope] and writes it with a [Client] inside its own
// transaction. Middleware finds the attempt in a message's context ([AttemptOf]) and
// says what is wrong by errors of a [Kind], or by a [Verdict].
//
// The package imports nothing else of Outrider's. The contracts of sources, destinations
// and state stores are in package adapters.
//
// # The words
//
// A message is one outbox row on its way. Its group is the key whose order is
// kept; an empty group has no order. A source yields rows, a destination takes
// batches of messages, a route joins the two. A slot is the hash of the group
// (0..15), a lane is one slot of one route. A verdict says what becomes of a
// message after an attempt; settling writes verdicts down durably.
package outbox
