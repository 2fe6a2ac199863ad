// Package faults proves the guarantees of the whole system from outside: it
// starts the built program against real servers, kills, stops, freezes and
// starves what it can reach, and compares what the receivers got with what was
// committed (package check).
//
// It has no code but tests, each named after the guarantee that it enforces.
// It is not the place for tests of one package, or of one clever case;
// those are beside the code. A scenario prints one line with what was done and
// the tally, so that a green run can be judged too.
package faults
