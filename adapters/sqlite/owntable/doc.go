// Package owntable reads an append-only table in a SQLite file by its position: Outrider's own
// layout ([Init]), or any table whose columns are given ([Columns]).
package owntable
