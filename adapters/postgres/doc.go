// Package postgres has what programs need for every kind of table and store in PostgreSQL: pools of connections ([Open]), the names of
// tables ([Locate]), triggers that wake a relay ([InitWake]), and texts for connections that fail ([ConnectionProblem]).
//
// What reads and writes are packages below it, which do not know each other, but for owntable, which uses retention:
//
//   - owntable reads outbox tables of Outrider's own layout and creates them; retention removes what every route has settled.
//   - logtable reads append-only tables of other layouts, Watermill's among them.
//   - queuetable claims and settles rows of tables that carry a status.
//   - outboxtable writes rows of another outbox table.
//   - statestore keeps cursors, ownership of lanes and parked messages.
//   - watermillsql reads a table of watermill-sql by its own Subscriber.
package postgres
