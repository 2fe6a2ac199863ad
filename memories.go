package outrider

import (
	"log/slog"
	"sync"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
)

// memories are what `dedupe: {store: memory}` remembers, by route. They are the
// relay's and not its configuration's, so a reload forgets nothing, unless it changes
// how much is remembered.
type memories struct {
	mu    sync.Mutex
	known map[memoryOf]adapters.DedupeStore
}

type memoryOf struct {
	route string
	max   int
}

func (m *memories) of(route string, most int, log *slog.Logger) adapters.DedupeStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoryOf{route, most}
	if m.known == nil {
		m.known = map[memoryOf]adapters.DedupeStore{}
	}
	if m.known[key] == nil {
		m.known[key] = middleware.DedupeMemory(most, log)
	}
	return m.known[key]
}
