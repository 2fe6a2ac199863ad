// Package memory bounds what messages on their way take in the whole process.
package memory
