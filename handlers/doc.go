// Package handlers holds the last step of a route: the handler behind the
// middleware chain that brings messages to the destination.
//
// Its main type is the [Gate]. The chains of messages run concurrently, so
// messages of one group reach their last step in any order and one at a time,
// but groups need their order and destinations need batches. The gate restores
// the order and makes the batches. A message takes its place in its
// group when it enters the lane, before its chain runs ([Gate.Enter]); its chain
// ends in [Gate.Handle], which waits; a batch has messages that wait at the
// front of their groups, and each caller gets the outcome of its own message.
//
// Where no chain has anything to do before a delivery, messages are offered
// instead ([Gate.Offer]): no goroutine waits, and their outcomes are reported.
//
// A failed message keeps its place, and so its group waits behind it
// while other groups continue. Package router decides its verdict and then calls
// [Gate.Leave] or [Gate.Withdraw].
//
// The gate knows nothing of tables, cursors or retries.
package handlers
