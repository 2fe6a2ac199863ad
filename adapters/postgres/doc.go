// Package postgres keeps Outrider's two halves that live in PostgreSQL: the
// outbox table that messages are read from ([Source]) and the state store that
// remembers progress ([State]). They may be in one database or in two.
//
// # The source
//
// The table is only ever read, retention aside (which is off unless it is wanted): SELECT on
// the table and on its sequence is enough, and no lock, transaction or snapshot outlives a read. What has been
// taken is known by a cursor, a position together with the snapshot in which
// everything up to it was visible, so that a transaction which commits late is
// neither lost nor waited for. [InitSQL] says what the table looks like; any
// language publishes with one INSERT.
//
// How the cursor moves is in cursor.go, free of I/O; the statement that reads,
// with its plan, is in fetch_sql.go.
//
// # Queue tables
//
// [Queue] works on tables whose rows carry a status, FlowCatalyst's and those of
// a mapping: it claims rows by a short statement and settles them in batches,
// beside other processors. How it finds work is in queue_groups.go, its
// statements are built in queue_sql.go, free of I/O.
//
// What the package is not: it decides no order between groups, retries nothing
// and delivers nothing; package router does.
package postgres
