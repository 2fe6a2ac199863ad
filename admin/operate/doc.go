// Package operate has the operator's commands. They work on tables and state from any process; no relay has to run.
//
// [Init] and [InitSQL] create tables or print the statements, [Publish] writes rows. An [Operator] works on the state: lanes,
// lag, pauses, parked messages, seek, rebase and retention. Each command returns what it did or found; the command line, the API
// and the dashboard show it.
package operate
