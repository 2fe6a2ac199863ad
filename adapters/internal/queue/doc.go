// Package queue is the ground of queue tables: one engine that claims and settles rows, and operators' methods. A database adds
// its statements.
//
// # Engine
//
// [Engine] implements [adapters.Queue] over the tables of a queue. It owns what has nothing to do with a database: the order of tables and
// their shares of a limit, leases and their tokens, terms of lanes, groups and rows that a request leaves out, the budget of bytes, and what
// is known after an error. A database gives a [Driver] for each table, which reads an index and marks rows, and the functions of [Backend], which
// write results.
//
// A table marks a row that is claimed, by a status, or it does not: then the engine remembers what it has claimed, and the table is only written
// when a row is settled. [NewTable] asks the layout.
//
// # How a claim finds rows
//
// A claim reads an index of what is unfinished, by group, time of creation and key, in pages, from the [Position] where the last claim ended. At the
// end of the index a [round] is complete, and the next one begins. A group is always read from its first unfinished row on, so nothing is claimed behind
// a row that another process holds, that is not due, or that the request leaves out. A round that finds next to nothing among very much
// is followed by a rest, so that rounds take a bounded share of the time.
//
// Of a page each group gets its share of the claim before one of them gets a second, so a round comes to all groups after few claims, however many rows
// each has. What there is no room for is claimed first if the claim gets more, and otherwise left to the next round.
//
// A round through a long backlog takes many claims. Groups that are known to have something new are read before it goes on: those whose rows went
// back, those that were not due, and those that [Driver.Newer] names. They get at most half of what a claim takes.
//
// # How rows are claimed
//
// Chosen rows are read again and marked in one transaction ([Driver.Take]). A row that is no longer as the page had it ends the
// prefix of its group. So does one that was not marked because another process was faster: what was marked behind it goes back.
//
// # What is not known
//
// After an error of a claim that no server answered, its rows may be marked: the next claim puts them back first. After such an error of a settle results
// may be written: the lease says so ([Lease.Unknown]), and the database finds out when they are given again. After such an error of an extension a row may
// have either time ([Lease.Former]).
//
// PostgreSQL does not use the engine: see docs/design.md, "Where code of four databases is shared".
package queue
