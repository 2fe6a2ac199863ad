// Package lite is what the packages of the SQLite adapter stand on: connections, locations of
// files, locks of other writers, names and values. It knows no tables.
package lite
