//go:build !linux

package server

// MemoryFolder returns "": no folder is known whose files are kept in memory.
func MemoryFolder(uint64) string { return "" }
