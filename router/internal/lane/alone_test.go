package lane

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// alone starts a session of slot 3 that nobody feeds, and whose settler writes nothing by
// itself. Call stop at the end.
func alone(t *testing.T, cfg Config) (s *Session, stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	shared := &Shared{Logger: log, Redact: func(a string) string { return a }, Budget: &memory.Budget{Limit: 1 << 20, Wake: func() {}},
		Patience: time.Second, Settlers: func(s adapters.StateStore) *settling.Settler { return settling.New(s, log, time.Second, time.Second) }}
	cfg.Name, cfg.Order, cfg.Attempts, cfg.SendTimeout = "orders", adapters.OrderGroup, 10, time.Minute
	rt := NewRoute(cfg, shared)
	rt.Connect(aloneFeeder{}, aloneLease{})
	if err := Compose([]*Route{rt}); err != nil {
		t.Fatal(err)
	}
	s = NewSession(rt.Lanes[3], adapters.Table{}, []adapters.LaneState{{LaneRef: adapters.LaneRef{Route: "orders", Slot: 3}, NextSeq: 1}}, nil)
	s.Start()
	return s, func() {
		s.Stop(context.Background())
		rt.Health.Close()
	}
}

// arrive reads rows of the given positions.
func arrive(s *Session, positions ...int64) {
	var rows []Arrival
	for _, p := range positions {
		row := &adapters.Row{Position: p, ID: string(rune('a' + p)), Page: &adapters.Page{}}
		rows = append(rows, Arrival{Stream: s.Streams()[0], Row: row, Matched: true})
	}
	s.Accept(rows)
}
