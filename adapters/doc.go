// Package adapters has the contracts of sources, queues, destinations and state stores.
//
// A [Source] is a table that is read by cursor, a [Queue] one whose rows are claimed, a
// [StateStore] keeps cursors and parked messages, and a [Destination] delivers: these are the methods that the router
// calls. [OperatorSource], [OperatorQueue] and [OperatorStore] add those for operators, jobs and dedupe; every adapter of this module has them.
// An interface in optional.go or destination.go is for a property that some adapters have and others lack. The folders below this one are the adapters;
// package adaptertest has the conformance tests.
package adapters
