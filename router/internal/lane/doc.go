// Package lane delivers the messages of one route in the order of their groups.
//
// A [Route] has one [Lane] per slot, each a Watermill handler with the route's middleware around it and a gate (package handlers) at its
// end. A lane does nothing by itself: a [Session] works it while it is ours. A session gives messages their place, runs their chains,
// carries out their verdicts, and returns what is to be written ([Session.Settlements]).
//
// A lane calls others by three interfaces: it reports the results of messages to an [Origin] and free room to a [Feeder], and asks a
// [Lease] whether it may still send. Package settling writes for it.
//
// # Parts
//
// Each part has its state and its files. Item, route and progress do not use outcomes and parking;
// what is left to be done for other sessions is returned as a followUp, which conclude.go runs without any mutex.
//
//	session    session.go       begins and ends, takes the mutex, and runs the goroutines; accept.go, hot.go: messages come
//	                            in; conclude.go: chains return; commands.go, eviction.go, trace.go: on request;
//	                            transaction.go, transaction_cursor.go: delivering and settling commit together
//	outcomes   outcomes.go      the verdict on an item, carried out: settled, parked, held, tried again; workers.go and
//	                            deliver_first.go run the chains
//	parking    parking.go       messages that wait in the state store; pump.go reads them back when they are due
//	progress   progress.go      what is in flight, settled and written; stream.go a cursor
//	item       item.go          a message in the lane; item_phase.go, where it changes its phase; charge.go, attempts
//	                            that are given back because their address was at fault
//	route      route.go         what lanes have in common; lane.go, poison.go, pauses.go, stats.go, contracts.go
//
// Two state machines know no session: package parkedgroup has the states of groups in the parking, package health those of the addresses
// of a route, which its sessions share.
//
// # Locks
//
// They are taken in this order, never the other way: session, gate, addresses; then one of the ledger of claims, poison, limiter and the
// manager of leases, under which nothing is locked. The settler, readers, claimers and managers hold none of their own while they call a
// session. Middleware runs without any of them.
//
// Methods of a session, its runner and its pump take the session's mutex themselves, unless
// their names end in Locked: those are called with it. So are all methods of outcomes, parking and progress.
package lane
