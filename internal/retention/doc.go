// Package retention runs the removal of rows that every route has settled: it
// reads from the state store how far all routes are, has the source take steps until
// nothing more can go, and reports which routes hold rows back.
//
// Rows of queue tables say by their status that they are finished; there a step needs no cursors.
//
// Sources decide which rows to remove, and have the SQL ([adapters.Retainer]). The
// package stores nothing: its metrics count since the process started.
package retention
