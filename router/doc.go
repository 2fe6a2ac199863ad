// Package router moves rows from sources to destinations: it acquires lanes, reads,
// keeps order, delivers and settles.
//
// # The parts
//
// A [Route] joins a source and a destination. This package checks routes and wires
// them; the parts are in packages of their own, below internal:
//
//	lane         messages in the order of their groups: sessions, chains, verdicts, the parking
//	health       addresses that are down
//	parkedgroup  the states of groups in the parking
//	reading      fetches for all lanes of a source in one query, matches, hands out
//	claiming     claims rows of a queue for all its lanes, and writes their results
//	listening    takes the messages of a Watermill Subscriber
//	ownership    acquires lanes, renews their leases and hands them over
//	settling     writes the progress of all lanes of a state store in one transaction
//	polling      how long a reader waits between polls
//	memory       bounds the memory of messages, per process and per route
//	logging      failures that last, logged once a minute
//	signal       signals and timers
//
// reading, claiming, listening and ownership import lane and not each other; lane imports
// none of them and has interfaces for what it needs.
//
// The package knows no database, broker or file format: those are adapters behind the
// interfaces of package adapters.
package router
