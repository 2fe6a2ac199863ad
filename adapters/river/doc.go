// Package river makes jobs of River (riverqueue.com) of messages.
//
// Where River's tables are in the database in which the route's progress is written, a job is inserted in the transaction that
// settles its message: each message becomes exactly one job. Elsewhere it is at least one, and
// [Config.Unique] can have River refuse the second.
package river
