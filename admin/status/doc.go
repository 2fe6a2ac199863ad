// Package status judges routes: the state of each, the one cause that keeps it from delivering, and the fix. It computes that from what
// state stores, tables and the relay's process say, and reads nothing itself.
package status
