// Package statestore keeps Outrider's state in a SQLite file, for one running instance.
package statestore
