// Package sqlite reads an outbox table in a SQLite file ([Source]) and keeps
// Outrider's state in one ([State]). Both may be the application's own file:
// the application, the source and the state store share it, each by
// connections of its own.
//
// # Settings
//
// Every connection waits up to five seconds for a lock (busy_timeout), so that
// the application's writes and Outrider's take turns. [Init] and [State.Migrate] put
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
