// Package interleave proves the SQL that ships: it runs the adapters themselves, holds each of their statements at
// a proxy on its way to the server, and lets a scheduler choose which session goes on. So it drives two relays, a publisher
// with an open transaction and an operator through all interleavings of a scenario, and checks after each that no row is
// lost, delivered out of order, settled twice or owned by two.
//
// It has no code but tests. docs/proof.md lists the scenarios, and the mutants of the statements that they kill.
package interleave
