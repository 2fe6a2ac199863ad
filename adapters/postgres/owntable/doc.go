// Package owntable reads outbox tables of Outrider's own layout in PostgreSQL ([Source]) and creates them ([Init]).
//
// SELECT on the table and on its sequence is enough, and no lock, transaction or
// snapshot outlives a read. Retention, if it is configured, needs more. A cursor is a
// position together with the snapshot in which everything up to it was visible, so a
// transaction that commits late is neither lost nor waited for. Package
// internal/reader has this rule, free of I/O, and the connection that reads; the
// statement, with its plan, is in fetch_sql.go. [InitSQL] shows the table; any language
// publishes with one INSERT.
package owntable
