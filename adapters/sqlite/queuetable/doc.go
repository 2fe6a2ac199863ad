// Package queuetable claims and settles rows of tables in SQLite that carry a status: those of presets that
// have a definition for SQLite, and those that a [Layout] describes.
//
// # How a claim finds work
//
// A claim knows entries: groups that may have rows to be claimed, and single rows that are in no order. It looks at those that
// are ready, an equal share of rows for each, and reads a group in its order from its first unfinished row on. So nothing is
// claimed behind a row that is not due or that another process holds. Entries come from two readings:
//
//   - News: the rows that were inserted since the last claim, by rowid. SQLite has one writer at a time, so rows become
//     visible in the order of their rowids and none is late.
//   - The scan: the names of all groups with unfinished rows, one index probe each, from time to time. It finds what was there at
//     the start, what others have put back, and rows that were given rowids of an application's choosing. Its share of the
//     time is bounded.
//
// A group is read from where the last look at it ended as long as nothing can have come before that place: rows there are
// ours, or no route wants them. The news says when a row has come before it.
//
// A claim reads and marks in one transaction. That of a table without a status for rows that are being processed only reads.
//
// # What is simpler than in PostgreSQL
//
// No row is locked: whoever writes has the file. Outcomes are known: a transaction that fails was rolled back. Statements take values one row
// at a time, because there is no round trip. The package decides no order between groups, retries nothing and delivers nothing; package router does.
package queuetable
