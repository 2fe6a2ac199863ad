// Package handlers holds the last step of a route: the handler behind the
// middleware chain that brings messages to the destination.
//
// Its heart is the [Gate]. The chains of messages run beside each other, so
// messages of one group reach their last step in any order and one at a time,
// while destinations want batches and groups want their order. The gate reconciles the three. A message takes its place in its
// group when it enters the lane, before its chain runs ([Gate.Enter]); its chain
// ends in [Gate.Handle], which waits; a batch is made of what waits at the
// front of its group, and each caller gets the outcome of its own message.
//
// Where no chain has anything to do before a delivery, messages are offered
// instead ([Gate.Offer]): no goroutine waits, and their outcomes are reported.
//
// A failed message keeps its place, and so the group stands still behind it
// while other groups flow. What becomes of it is decided elsewhere (package
// router), which ends with [Gate.Leave] or [Gate.Withdraw].
//
// The gate knows nothing of tables, cursors or retries.
package handlers
