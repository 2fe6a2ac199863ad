// Package statestore keeps what Outrider remembers in MariaDB or MySQL: cursors, ownership of
// lanes, parked messages, pauses, operations, the audit log and ids for deduplication ([Store]).
// The database need not be that of a queue. [LeaderLock] is the lock of a source that one
// instance works at a time.
//
// An instance shows that it lives by a lease and by a lock of its session, GET_LOCK (session.go). Acquiring a lane raises
// its epoch (acquire.go), and a settle with a lower one writes nothing (settle.go): an UPDATE at READ COMMITTED
// compares the epoch that is committed when it has the row's lock, so an owner that is late cannot miss its successor.
//
// Rows are locked in one order: the route's, the cursors by route and slot, the parked messages. Deadlocks that
// remain are for InnoDB to find, and the transaction is run again.
package statestore
