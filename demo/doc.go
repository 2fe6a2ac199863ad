// Package demo runs a complete system in one process, to try it
// out: a small shop that commits orders together with outbox rows into an SQLite
// file, a relay that is configured like any other, and HTTP receivers of which
// some fail for a while.
//
// The receivers compare what arrived with the orders that the shop committed. The
// relay's counters are shown while the demo runs and do not affect the result.
//
// The package does not test Outrider's guarantees under crashes, and is not an example
// of how to embed it: see the tests and the folder examples.
package demo
