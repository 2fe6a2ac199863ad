// Command listeners is a shop in one program: an order and its event are committed together, and functions of the program get the
// event afterwards, at least once, in order per customer. The relay runs inside.
//
// It needs no server:
//
//	go run ./examples/listeners
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// Order is the payload of OrderPlaced.
type Order struct {
	Number   int
	Customer string
	Total    int
}

// OrderPlaced is the event of a new order.
const OrderPlaced outbox.Type[Order] = "order.placed"

// Shop is the application.
type Shop struct {
	DB     *sql.DB
	Client *outbox.Client
	Out    io.Writer
}

// Place stores an order and publishes its event, in one transaction.
func (s *Shop) Place(ctx context.Context, o Order) error {
	return outbox.InTx(ctx, s.DB, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?, ?)", o.Number, o.Customer, o.Total); err != nil {
			return err
		}
		event, err := OrderPlaced.New(o).Group(o.Customer).Build()
		if err != nil {
			return err
		}
		return s.Client.Publish(ctx, tx, event)
	})
}

// Listeners handle the events of an order.
func (s *Shop) Listeners() *listeners.Registry {
	r := listeners.New()
	listeners.Listen(r, OrderPlaced, s.confirm)
	listeners.Listen(r, listeners.Any, s.audit)
	return r
}

func (s *Shop) confirm(_ context.Context, o Order) error {
	_, err := fmt.Fprintf(s.Out, "dear %s, order %d costs %d\n", o.Customer, o.Number, o.Total)
	return err
}

func (s *Shop) audit(_ context.Context, e outbox.Envelope) error {
	_, err := fmt.Fprintln(s.Out, "audit:", e.Type(), "of", e.Group())
	return err
}

const tables = "CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT, total INTEGER CHECK (total > 0))"

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "outrider-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "shop.db")
	cfg, err := outrider.NewConfig(outrider.Config{
		Sources:      map[string]config.Source{"shop": &config.SQLite{Path: path}},
		Destinations: map[string]config.Destination{"app": &config.Listeners{}},
		Routes:       []config.Route{{Name: "orders", From: "shop", Targets: []string{"app"}}},
	})
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil { // the outbox table; `outrider init` does the same
		return err
	}
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	if err != nil {
		return err
	}
	return trade(ctx, cfg, &Shop{DB: db, Client: client, Out: out})
}

// trade places an order while the relay runs, and returns when its confirmation is out.
func trade(ctx context.Context, cfg *outrider.Config, shop *Shop) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	registry := shop.Listeners()
	listeners.Listen(registry, listeners.Any, func(context.Context, outbox.Envelope) error { // the last one of each event
		stop()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("app", registry))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	if err := shop.Place(ctx, Order{Number: 1, Customer: "heron", Total: 12}); err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	return <-ended
}
