// Package postgres reads outbox tables of Outrider's own layout in PostgreSQL
// ([Source]), creates them ([Init]) and removes what every route has settled
// ([Source.Retain]).
//
// Other parts of the adapter are packages beside it, which do not know each other:
//
//   - logtable reads append-only tables of other layouts, Watermill's among them.
//   - queuetable claims and settles rows of tables that carry a status.
//   - statestore keeps cursors, ownership of lanes and parked messages.
//
// # Reading
//
// SELECT on the table and on its sequence is enough, and no lock, transaction or
// snapshot outlives a read. Retention, if it is configured, needs more. A cursor is a
// position together with the snapshot in which everything up to it was visible, so a
// transaction that commits late is neither lost nor waited for. Package
// internal/reader has this rule, free of I/O, and the connection that reads; the
// statement, with its plan, is in fetch_sql.go. [InitSQL] shows the table; any language
// publishes with one INSERT.
package postgres
