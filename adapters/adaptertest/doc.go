// Package adaptertest holds the conformance suites that every adapter passes.
// An adapter's test calls [Destination] with a [Harness] to check what
// router relies on: payloads arrive byte for byte, order is kept within a
// group, errors belong to the message at their index, and whatever the receiver
// does, the delivered messages of a group are a prefix of what was sent.
//
// [Source], [Queue] and [StateStore] do the same for the other kinds of adapters. The
// harness of a queue names its tables and reads them directly, so that the suite
// works with any layout on any database.
//
// Adapters test the features of their own technology themselves.
package adaptertest
