package system_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// arrivals is a destination that tells what arrives.
type arrivals chan string

func (a arrivals) Address(*message.Message) (string, error) { return "here", nil }
func (a arrivals) Ordering() adapters.Ordering              { return adapters.Ordering{Static: true} }
func (a arrivals) Close() error                             { return nil }

func (a arrivals) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	for _, m := range batch {
		a <- m.UUID
	}
	return nil
}

// An embedded relay that polls once an hour delivers what it is told of.
func TestWakeAfterCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: sqlite, path: %q, poll: {min: 1h, max: 1h}}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: app, to: here}}
`, path))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	got := make(arrivals, 10)
	relay, err := outrider.New(cfg, outrider.WithBatchDestination("here", got))
	must(t, err)
	relay.Wake("app") // nothing runs yet
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	<-relay.Ready()
	db, err := sqlite.Open(path)
	must(t, err)
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	must(t, err)
	for range 3 {
		m, err := outbox.New("t").JSON(1).Build()
		must(t, err)
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		must(t, client.Publish(ctx, tx, m))
		must(t, tx.Commit())
		relay.Wake("app")
		relay.Wake("other")
		select {
		case id := <-got:
			if id != m.ID() {
				t.Errorf("%s arrived, want %s", id, m.ID())
			}
		case <-time.After(30 * time.Second):
			t.Fatal("nothing arrived")
		}
	}
	cancel()
	must(t, <-done)
	must(t, db.Close())
}
