// Package adaptertest holds the conformance suites that every adapter passes.
// An adapter's test hands [Destination] a [Harness] and thereby promises what
// router relies on: payloads arrive byte for byte, order is kept within a
// group, errors belong to the message at their index, and whatever the receiver
// does, the delivered messages of a group are a prefix of what was sent.
//
// [Source], [Queue] and [State] do the same for the other kinds of adapters. The
// harness of a queue says what its tables are called and how to look at them
// behind the queue's back, so that any layout on any database can be run
// through it.
//
// It is not a test of a technology's own features; adapters test those
// themselves.
package adaptertest
