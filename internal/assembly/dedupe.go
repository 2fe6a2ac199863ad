package assembly

import (
	"context"
	"log/slog"
	"sync"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
)

// dedupeLayer drops duplicates of the producer. Routes with one state store ask it
// together.
func dedupeLayer(at layerSite, m *config.Dedupe) middlewareKind {
	return middlewareKind{make: func(ctx context.Context) (middleware.Layer, error) { return newDedupe(ctx, at, m) }}
}

func newDedupe(ctx context.Context, at layerSite, m *config.Dedupe) (middleware.Layer, error) {
	dedupe := &middleware.Dedupe{Window: m.Window.Std(), Scope: at.route, Logger: at.log.With("route", at.route)}
	if m.Store == config.DedupeMemory {
		if at.Options.memories == nil {
			dedupe.Max = m.Max
		} else {
			dedupe.Store = at.Options.memories.of(at.route, m.Max, dedupe.Logger)
		}
		return dedupe, dedupe.Validate()
	}
	state, err := at.OpenState(ctx, at.parts, at.from)
	if err != nil {
		return nil, err
	}
	store := at.parts.events[state]
	if store == nil {
		store = middleware.Coalesce(state)
		at.parts.events[state] = store
	}
	dedupe.Store = store
	return dedupe, dedupe.Validate()
}

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
