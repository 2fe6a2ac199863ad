// Package wire has the forms in which values travel between PostgreSQL and the adapter:
// binary values decoded into rows that share allocations ([Decoder]), arrays written as
// text ([Array]), and expressions that keep what is too large from being sent ([Within]).
package wire
