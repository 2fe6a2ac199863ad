// Package lite has what the packages of the SQLite adapter share: connections, locations of
// files, locks of other writers, names and values. It knows no tables.
package lite
