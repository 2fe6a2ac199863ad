// Package mysql is Outrider on MariaDB (10.6 and later) and MySQL (8.0.23 and later): what its packages have in common for
// those who open connections. Package queuetable claims and settles rows of tables with a status, package statestore keeps the state.
//
// # No append-only table
//
// An outbox that is read by a cursor has to wait for transactions that took their numbers early and commit late.
// A number that was taken by AUTO_INCREMENT and is not inserted yet cannot be seen here, nor the transaction that
// took it, so a reader cannot know for what to wait. Tables whose rows carry a status do not have the problem: a
// late row waits until it is claimed.
package mysql
