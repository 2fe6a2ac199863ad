// Package lane delivers the messages of one route in the order of their groups.
//
// A [Route] has one [Lane] per slot, each a Watermill handler with the route's
// middleware around it and a gate (package handlers) at its end. A lane does nothing
// by itself: a [Session] works it while it is ours. A session gives messages their
// place, runs their chains, carries out their verdicts, and returns what is to be
// written ([Session.Settlements]).
//
// What a lane needs of others it asks by three interfaces: an [Origin] is told what
// became of messages, a [Feeder] that there is room, and a [Lease] answers whether the
// lane may still send. Package settling writes for it.
//
// # Locks
//
// They are taken in this order, never the other way: session, gate, addresses; then
// one of the ledger of claims, poison, limiter and the manager of leases, under which
// nothing is locked. The settler, readers, claimers and managers hold none of their own while
// they call a session. Middleware runs without any of them. Methods of a session
// that others call take its mutex themselves.
package lane
