// Package demo is the whole system in one process, for looking at and for trying
// out: a small shop that commits orders together with outbox rows into an SQLite
// file, a relay that is configured like any other, and HTTP receivers of which
// some fail for a while.
//
// What arrived is judged by the receivers, which compare it with the orders that
// the shop committed. The relay's counters are shown while the demo runs and
// have no part in the verdict.
//
// The package is no test of Outrider's guarantees under crashes, and no example
// of how to embed it: see the tests and the folder examples.
package demo
