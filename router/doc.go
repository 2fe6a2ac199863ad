// Package router moves rows from sources to destinations: it reads, keeps
// order, delivers, settles, and owns what it works on.
//
// # The parts
//
// A [Route] joins a source and a destination. It has one lane per slot; a lane
// is one Watermill handler with the route's middleware stack around it and a
// gate (package handlers) at its end.
//
//	reader  one per source: fetches for all lanes in one query, matches, fans out
//	claimer one per queue: claims rows for all lanes, matches, hands them out
//	ledger  one per queue: which rows are claimed, what became of them, and what
//	        is not to be claimed now
//	lane    a Watermill handler; idle unless a session works it
//	session one period of owning a lane: gives rows their place, runs their
//	        chains, concludes their verdicts
//	stream  how far one slot of a route was fetched and settled
//	parking messages that were taken out of the stream, and their way back
//	health  which addresses of a route are down, and who probes them
//	settler one per state store: writes all lanes' progress in one transaction;
//	        one per queue: writes what became of its rows
//	keeper  one per state store: which lanes are ours, and for how long
//
// # Locks
//
// They are taken in this order, never the other way: session, gate, health; then
// one of ledger, poison, limiter and keeper, under which nothing is locked. The
// settler, the reader, the claimer and the keeper hold none of their own while
// they call a session. Middleware runs without any of them.
//
// # What it is not
//
// It knows no database, broker or file format: those are adapters behind the
// interfaces of package outbox.
package router
