// Package router moves rows from sources to destinations: it reads, keeps
// order, delivers, settles, and owns what it works on.
//
// # The parts
//
// A [Route] joins a source and a destination. This package checks routes and wires
// them; the parts are in packages of their own, below internal:
//
//	lane       messages in the order of their groups: sessions, chains, verdicts,
//	           the parking, addresses that are down
//	reading    fetches for all lanes of a source in one query, matches, hands out
//	claiming   claims rows of a queue for all its lanes, and writes what became of them
//	listening  takes the messages of a Watermill Subscriber
//	ownership  which lanes are ours, and for how long
//	settling   writes the progress of all lanes of a state store in one transaction
//	polling    how long a reader waits between polls
//	memory     what messages may take, per process and per route
//	logging    failures that last, logged once a minute
//	signal     signals and timers
//
// reading, claiming, listening and ownership know lane and not each other; lane knows
// none of them, but for what its interfaces ask.
//
// # What it is not
//
// It knows no database, broker or file format: those are adapters behind the
// interfaces of package outbox.
package router
