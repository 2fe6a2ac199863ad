// Package sqlite is Outrider on SQLite files: [Open] and what its packages have in common. Package
// owntable reads an outbox table, package queuetable claims and settles rows of tables with a status,
// and package statestore keeps the state. All may use the application's own file, each by connections of its own.
//
// # Settings
//
// Every connection waits up to five seconds for a lock (busy_timeout), so that
// the application's writes and Outrider's take turns. Creating the tables puts
// the file into WAL mode, which it keeps: then readers and the writer do not
// wait for each other. Outrider's own transactions are short and take the
// write lock when they begin (BEGIN IMMEDIATE). The state's connections use
// synchronous=NORMAL: after a loss of power the last settles may be gone, and
// what they settled is delivered again. The application's own settings are its
// own; [Open] gives it a handle with sensible ones.
//
// # Limits
//
// A SQLite file has one writer at a time and no network access. One
// instance of Outrider serves a file; a second one is refused. Files on network
// file systems are not supported: their locks cannot be relied on.
package sqlite
