// Package memory bounds the memory of all messages in flight in the process.
package memory
