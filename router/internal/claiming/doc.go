// Package claiming feeds lanes from a queue table whose rows are claimed: it claims,
// hands out, extends, and writes what became of the rows.
package claiming
