// Package faults proves the guarantees of the whole system from outside: it
// starts the built program against real servers, kills, stops, freezes and starves
// relays and servers, and compares the received messages with the committed ones
// (package check).
//
// It has no code but tests, each named after the guarantee that it enforces.
// Tests of one package or of one case are next to the code instead. A scenario prints one line with what was done and
// the tally, so that a green run can be judged too.
package faults
