package middleware

import (
	"github.com/outriderhq/outrider/adapters"
)

// NewMemoryForTest returns the store of a Dedupe without one.
func NewMemoryForTest(limit int) adapters.DedupeStore { return newMemory(limit, func() {}) }
