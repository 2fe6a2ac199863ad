package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// record is a log handler that keeps messages.
type record struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (r *record) Enabled(context.Context, slog.Level) bool { return true }

func (r *record) Handle(_ context.Context, line slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, line.Message)
	return nil
}

func (r *record) times(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.said {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// Reloads whose callers do not wait, of configurations that can start and of some that
// cannot, come while the one before still starts; sometimes the relay ends meanwhile.
// It continues with a configuration that works: a failed reload restores the last
// active configuration, never another one that could not start.
func TestG11_ReloadsWhileAnotherStillStarts(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t)
	dir := t.TempDir()
	db, other := filepath.Join(dir, "app.db"), filepath.Join(dir, "other.db")
	first := reloadable(t, db, url, "first", "")
	taken := reloadable(t, db, url, "taken", fmt.Sprintf("state: {url: %q}", "sqlite:"+other))
	for _, cfg := range []*outrider.Config{first, taken} {
		_, err := operate.Init(t.Context(), cfg)
		must(t, err)
	}
	state, err := statestore.New(t.Context(), statestore.Config{Path: other})
	must(t, err)
	must(t, state.Join(t.Context(), "another", time.Hour))
	defer func() { must(t, state.Close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		log := &record{Handler: slog.DiscardHandler}
		o, err := outrider.New(first, outrider.WithLogger(slog.New(log)))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		done := make(chan error, 1)
		go func() { done <- o.Run(ctx) }()
		<-o.Ready()
		// Each is given up as soon as it has taken over, before it can have started:
		// so the next one comes while it starts, or while the old one comes back.
		begun := 0
		for range 4 {
			next := taken
			if random.IntN(4) == 0 {
				next = reloadable(t, db, url, "second", "")
			}
			begun++
			calling, giveUp := context.WithCancel(ctx)
			told := make(chan bool, 1)
			go func() { told <- o.Reload(calling, next) == nil }()
			eventually(t, "the reload is under way", func() bool { return log.times("reloading: finishing") >= begun || len(told) > 0 })
			giveUp()
			<-told // whether it was in time does not matter
			if log.times("reloading: finishing") < begun {
				begun-- // it was over before
			}
		}
		if round%3 == 2 { // the relay ends meanwhile
			cancel()
			must(t, <-done)
			continue
		}
		must(t, o.Reload(ctx, reloadable(t, db, url, fmt.Sprint("last", round), "")))
		m, err := outbox.New("t").Group("g").JSON(1).Build()
		must(t, err)
		must(t, operate.Publish(ctx, first, "app", m))
		eventually(t, "the last one is at work", func() bool { return box.at(fmt.Sprint("/last", round)) == 1 })
		cancel()
		must(t, <-done)
	}
}
