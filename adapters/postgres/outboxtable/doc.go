// Package outboxtable writes messages into an outbox table: Outrider's own, or one of a layout that has a name. Rows are
// those that the table's own publishers would write, so whatever reads the table takes them.
//
// Where the table is in the database in which the route's progress is written, a row is inserted in the transaction that settles
// its message: each message becomes exactly one row. Elsewhere it is at least one, and a table whose event ids are unique keeps
// one of them.
package outboxtable
