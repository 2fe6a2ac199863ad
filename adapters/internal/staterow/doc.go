// Package staterow holds what the SQL state stores of every database have in
// common and what needs no SQL: how text and metadata become column values,
// and which filters an operator command accepts. It runs no statement.
package staterow
