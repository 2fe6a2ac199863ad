// Package console is shared by the HTTP API and the dashboard of a running relay: it has an operator on the active configuration, snapshots of
// the status, the history of the last hour, metrics that only databases know, and the watchdog.
package console
