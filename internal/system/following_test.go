package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// TestG1_NoCommitIsLeftToThePoll: with polls that are soon an hour apart the server's WAL alone lets everything arrive, in tables with and without a status,
// however long transactions take, and though the connection is cut again and again. Publishers do nothing for it.
func TestG1_NoCommitIsLeftToThePoll(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 30
	url := testenv.StartPostgres(t).URL() // the WAL is that of all databases
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources:
  own: {type: postgres, url: %[1]q, wake: replication, poll: {min: 1ms, factor: 100, max: 1h}}
  jobs: {type: postgres, url: %[1]q, layout: outbox-framework, wake: replication, poll: {min: 1ms, factor: 100, max: 1h}}
destinations: {here: {type: listeners}}
routes: {own: {from: own, to: here}, jobs: {from: jobs, to: here}}
`, url))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	registry, arrived := listeners.New(), make(chan string, 4*writers*each)
	listeners.Listen(registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		arrived <- e.ID()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })
	<-relay.Ready()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)

	var mu sync.Mutex
	missing := map[string]bool{}
	var writing sync.WaitGroup
	for w := range writers {
		layout := []string{"outrider", "outbox-framework"}[w%2]
		client, err := outbox.NewClient(outbox.ClientConfig{Layout: layout})
		must(t, err)
		writing.Go(func() {
			for i := range each {
				if i == each-1 {
					time.Sleep(3 * time.Second) // no poll is due within patience
				}
				e, err := outbox.New("created").JSON(i).Aggregate("order", strconv.Itoa(w)).Build()
				if err == nil {
					err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
						if err := client.Publish(t.Context(), tx, e); err != nil {
							return err
						}
						time.Sleep(time.Duration((i*7919+w*31)%40) * time.Millisecond)
						return nil
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				missing[e.ID()] = true
				mu.Unlock()
				if i%10 == 4 {
					_, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
					must(t, err)
				}
				time.Sleep(time.Duration((i*104729+w*17)%60) * time.Millisecond)
			}
		})
	}
	writing.Wait()
	const patience = 30 * time.Second
	for len(missing) > 0 {
		select {
		case id := <-arrived:
			delete(missing, id)
		case <-time.After(patience):
			t.Fatalf("%d of %d messages did not arrive in %v", len(missing), writers*each, patience)
		}
	}
}
