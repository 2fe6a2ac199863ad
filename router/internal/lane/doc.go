// Package lane delivers the messages of one route in the order of their groups.
//
// A [Route] has one [Lane] per slot, each a Watermill handler with the route's
// middleware around it and a gate (package handlers) at its end. A lane does nothing
// by itself: a [Session] works it while it is ours. A session gives messages their
// place, runs their chains, carries out their verdicts, and returns what is to be
// written ([Session.Settlements]).
//
// A lane calls others by three interfaces: it reports the results of messages to an
// [Origin] and free room to a [Feeder], and asks a [Lease] whether it may still
// send. Package settling writes for it.
//
// # Parts of a session
//
// A session consists of parts. Each has its state and its file; a part uses those below it in
// this list, calls nothing above it, and returns what is left to be done. The session takes
// the mutex, passes what one part returns to the next, and runs the goroutines.
//
//	outcomes   outcomes.go      what becomes of an item: verdict to settled, parked, held, tried again
//	pump       pump.go          reads parked messages back when their groups are due
//	parking    parking.go       messages that wait in the state store; package parkedgroup has the states of their
//	                            groups, charge.go attempts that are given back because their address was at fault
//	runner     workers.go       which chains run
//	progress   progress.go      what is in flight, settled and written; stream.go a cursor
//	cutoff     cutoff.go        what is unknown after a stop that could wait no longer
//
// An [Item] changes its phase in item_phase.go only. The addresses of a route are shared by its
// sessions (package health). Work for other
// sessions is returned as a followUp, which conclude.go runs without any mutex.
//
// # Locks
//
// They are taken in this order, never the other way: session, gate, addresses; then
// one of the ledger of claims, poison, limiter and the manager of leases, under which
// nothing is locked. The settler, readers, claimers and managers hold none of their own while
// they call a session. Middleware runs without any of them.
//
// Methods of a session, its runner and its pump take the session's mutex themselves, unless
// their names end in Locked: those are called with it. The other parts are guarded by it as a
// whole, and all of their methods are called with it.
package lane
