// Package state holds what the SQL state stores of every database have in
// common: how text and metadata become column values, and the statements of
// operators' commands about parked messages, which differ by a [Dialect] only.
// It opens no connection; a store lends it a transaction as [Tx].
package state
