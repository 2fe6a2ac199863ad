package relay

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// A relay is alive while its main loop takes what it is sent, and in those phases that have limits of their own.
func TestAlive(t *testing.T) {
	t.Parallel()
	r := New(&config.Config{}, assembly.Options{Logger: slog.New(slog.DiscardHandler)})
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for _, p := range []phase{starting, draining, changing} {
		r.state.Store(int32(p))
		if !r.Alive(soon()) {
			t.Errorf("phase %d is not alive", p)
		}
	}
	r.state.Store(int32(running))
	if r.Alive(soon()) {
		t.Error("a main loop that does not answer is alive")
	}
	go func() { <-r.pulse }()
	if !r.Alive(t.Context()) {
		t.Error("a main loop that answers is not alive")
	}
	waited := make(chan bool)
	go func() { waited <- r.Alive(t.Context()) }()
	r.state.Store(int32(changing)) // the loop has left for a reload
	if !<-waited {
		t.Error("a reload that begins while Alive waits is not alive")
	}
}
