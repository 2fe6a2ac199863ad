// Package outbox is Outrider's vocabulary: what a message is, what can become
// of it, and the interfaces that sources, destinations and state stores meet.
// It is also what application code imports to publish: build an [Envelope] and
// write it with a [Client] inside the application's own transaction.
//
// The package imports nothing else of Outrider's, so that an adapter, a
// middleware or an application needs this package only. What it is not: it
// reads no table, runs no handler and decides no order; package router does.
//
// # The words
//
// A message is one outbox row on its way. Its group is the key whose order is
// kept; an empty group wants none. A source yields rows, a destination takes
// batches of messages, a route joins the two. A slot is the hash of the group
// (0..15), a lane is one slot of one route. A verdict says what becomes of a
// message after an attempt; settling writes verdicts down durably.
package outbox
