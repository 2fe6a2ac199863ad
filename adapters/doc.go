// Package adapters has the contracts of sources, queues, destinations and state stores.
//
// A [Source] is a table that is read by cursor, a [Queue] one whose rows are claimed, a
// [StateStore] keeps cursors and parked messages, and a [Destination] delivers. Each
// has optional interfaces beside it, such as [Examiner] and [Waker], which an adapter
// implements if it can. The folders below this one are the adapters; package adaptertest has
// the conformance tests.
package adapters
