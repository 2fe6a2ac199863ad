// Command hotpath publishes events of the outbox framework's table and handles them in the same program, from memory, right after their
// commit. Polling finds the other events, for example after a crash. It needs a PostgreSQL database:
//
//	DATABASE_URL=postgres://... go run ./examples/hotpath
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// User is the payload of UserCreated.
type User struct{ Name string }

// UserCreated is the event of a new user.
const UserCreated outbox.Type[User] = "USER_CREATED"

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg, err := outboxframework.NewSettings().Config(url)
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil { // the table and its indexes; `outrider init` does the same
		return err
	}

	event, err := UserCreated.New(User{Name: "heron"}).Aggregate("USER", "1").Build()
	if err != nil {
		return err
	}

	// The listeners, which run after the commit.
	registry := listeners.New()
	listeners.Listen(registry, UserCreated, func(ctx context.Context, u User) error {
		_, err := fmt.Fprintln(out, "welcome,", u.Name)
		if e, _ := listeners.EnvelopeOf(ctx); e.ID() == event.ID() { // others are left from a run that was killed
			stop() // one user is enough for an example
		}
		return err
	})
	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry))
	if err != nil {
		return err
	}

	// The client hands what it publishes to the relay.
	hot, err := relay.HotPath(outboxframework.Source)
	if err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Hot: hot})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	select { // before it is ready, events are left to the poller
	case <-relay.Ready():
	case err := <-ended:
		return err
	}

	err = outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		// The user's own row is written here, with tx.
		return client.Publish(ctx, tx, event)
	})
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	return <-ended
}
