// Package queuetable claims and settles rows of tables in SQLite that carry a status: those of presets that
// have a definition for SQLite, and those that a [Layout] describes.
//
// # How a claim finds work
//
// The engine of package queue reads the index of unfinished rows in rounds, by group, time of creation and key. Rows in no order come first.
// Between two claims it asks for the groups of new rows, by rowid: SQLite has one writer at a time, so rows become visible in the order of their
// rowids, and the first row of a new group waits for no round. Rounds find what others have put back, and rows that were given rowids of an
// application's choosing.
//
// A claim reads pages without a transaction, and rows again in the one that marks them: the write lock is taken only when there is something to
// mark. A claim of a table without a status for rows that are being processed writes nothing.
//
// # What is simpler than in PostgreSQL
//
// No row is locked: whoever writes has the file. Outcomes are known: a transaction that fails was rolled back. Statements that write take values one row
// at a time, because there is no round trip.
package queuetable
