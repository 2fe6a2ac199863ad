package middleware

import "github.com/outriderhq/outrider/outbox"

// NewMemoryForTest returns the store of a Dedupe without one.
func NewMemoryForTest(limit int) outbox.DedupeStore { return newMemory(limit, func() {}) }
