// Package reading feeds lanes from a source that is read by cursor: one query per poll
// for all lanes of all routes of a source.
package reading
