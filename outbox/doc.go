// Package outbox is for applications that publish and for authors of middleware. An
// application builds an [Envelope] and writes it with a [Client] in its own
// transaction. Middleware reads the attempt from a message's context ([AttemptOf])
// and reports failures by errors of a [Kind], or by a [Verdict].
//
// The package imports no other package of Outrider. The contracts of sources,
// destinations and state stores are in package adapters.
//
// # Terms
//
// A message is one outbox row on its way. Its group is the key whose order is
// kept; an empty group has no order. A source yields rows, a destination takes
// batches of messages, a route connects the two. A slot is the hash of the
// group (0..15), a lane is one slot of one route. A verdict is the result of an
// attempt; settling makes verdicts durable.
package outbox
