// Package polling decides how long a reader waits between two reads.
package polling
