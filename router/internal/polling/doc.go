// Package polling says how long whoever reads a table waits between two reads.
package polling
