// Command watermillsql publishes with a stock watermill-sql Publisher inside the
// application's own transaction. Order and message are committed together or not
// at all; Outrider reads the table and hands the messages to a Watermill
// publisher, here a channel in memory.
//
// It needs no server, and also runs on PostgreSQL:
//
//	go run ./examples/watermillsql
//	EXAMPLE_DATABASE_URL=postgres://... go run ./examples/watermillsql
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL for database/sql

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/wmsql"
)

const config = `
admin: {listen: off}
sources:
  app: {SOURCE}
destinations:
  inbox: {type: publisher, topic: "{{.Type}}"} # given in Go, below
routes:
  orders: {from: app, to: inbox}
`

func main() {
	if err := run(context.Background(), os.Getenv("EXAMPLE_DATABASE_URL"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shop is the application's database.
type shop struct {
	*sql.DB
	dialect outbox.Dialect
	insert  string // an order
}

// open opens the database and returns the source of a relay for it; without a URL a file in dir.
func open(url, dir string) (db shop, source string, err error) {
	if url != "" {
		db = shop{dialect: outbox.PostgreSQL, insert: `INSERT INTO orders VALUES ($1, $2, $3)`}
		db.DB, err = sql.Open("pgx", url)
		return db, fmt.Sprintf("type: postgres, url: %q", url), err
	}
	path := filepath.Join(dir, "app.db")
	db = shop{dialect: outbox.SQLite, insert: `INSERT INTO orders VALUES (?, ?, ?)`}
	db.DB, err = sqlite.Open(path)
	return db, fmt.Sprintf("type: sqlite, path: %q", path), err
}

// run places three orders, of which one is refused, and shows what arrives.
func run(ctx context.Context, url string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "outrider-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, source, err := open(url, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	cfg, err := outrider.ParseConfig("example", []byte(strings.Replace(config, "SOURCE", source, 1)))
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT, cents INTEGER)`); err != nil {
		return err
	}
	for _, o := range []order{{"o-1", "heron", 1200}, {"o-2", "kite", -5}, {"o-3", "heron", 800}} {
		if err := place(ctx, db, o); err != nil {
			fmt.Fprintf(out, "order %s: %v\n", o.ID, err)
		}
	}
	return receive(ctx, cfg, out)
}

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

var errPrice = errors.New("refused and rolled back: the price is negative")

// place stores an order and publishes it, in one transaction.
func place(ctx context.Context, db shop, o order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, db.insert, o.ID, o.Customer, o.Cents); err != nil {
		return err
	}
	publisher, err := wmsql.NewPublisher(tx, wmsql.Schema{Dialect: db.dialect}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	msg := message.NewMessage(watermill.NewULID(), payload)
	msg.Metadata.Set(outbox.MetaGroup, o.Customer) // a customer's orders arrive in order
	if err := publisher.Publish("order.placed", msg); err != nil {
		return err
	}
	if o.Cents < 0 {
		return errPrice // after publishing: the message disappears with the order
	}
	return tx.Commit()
}

// receive runs the relay until the two orders have arrived.
func receive(ctx context.Context, cfg *outrider.Config, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Publish returns when the subscriber has acknowledged, so that nothing
	// counts as delivered that was not received.
	channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	arrivals, err := channel.Subscribe(ctx, "order.placed")
	if err != nil {
		return err
	}
	relay, err := outrider.New(cfg, outrider.WithDestination("inbox", channel))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	for range 2 {
		select {
		case msg := <-arrivals:
			fmt.Fprintf(out, "arrived: %s of group %s\n", msg.Payload, msg.Metadata[outbox.MetaGroup])
			msg.Ack()
		case err := <-ended:
			return errors.Join(errors.New("the relay ended early"), err)
		}
	}
	stop()
	return <-ended
}
