// Command watermillforwarder keeps Watermill's Forwarder on both sides and puts
// Outrider between them: the application publishes through forwarder.Publisher into
// Outrider's table, inside its own transaction; Outrider delivers the envelopes, and
// the stock Forwarder takes them apart and publishes each message to its topic.
//
// It needs no server:
//
//	go run ./examples/watermillforwarder
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/wmsql"
)

const config = `
admin: {listen: off}
sources:
  app: {type: sqlite, path: "${EXAMPLE_DB}"}
destinations:
  forwarder: {type: publisher, topic: to-forward} # given in Go, below
routes:
  # Envelopes have no group, so only the order of the whole table keeps that of a topic.
  envelopes: {from: app, to: forwarder, order: global}
`

// forwarderTopic is the topic that application, route and Forwarder agree on.
const forwarderTopic = "to-forward"

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run publishes to two topics and prints the messages of the Forwarder.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "outrider-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "app.db")
	cfg, err := outrider.ParseConfig("example", []byte(os.Expand(config, func(string) string { return path })))
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := publish(ctx, db); err != nil {
		return err
	}
	return forward(ctx, cfg, out)
}

// publish stores two messages for two topics in one transaction.
func publish(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	table, err := wmsql.NewPublisher(tx, wmsql.Schema{Dialect: outbox.SQLite}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	pub := forwarder.NewPublisher(table, forwarder.PublisherConfig{ForwarderTopic: forwarderTopic})
	for _, m := range []struct{ topic, id, payload string }{{"orders", "o-1", "an order"}, {"invoices", "i-1", "an invoice"}} {
		msg := message.NewMessage(m.id, []byte(m.payload))
		msg.Metadata.Set("by", "heron")
		if err := pub.Publish(m.topic, msg); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// forward runs relay and Forwarder until both messages have arrived.
func forward(ctx context.Context, cfg *outrider.Config, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Publish returns when the Forwarder has acknowledged.
	between := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	broker := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	orders, err := broker.Subscribe(ctx, "orders")
	if err != nil {
		return err
	}
	invoices, err := broker.Subscribe(ctx, "invoices")
	if err != nil {
		return err
	}
	f, err := forwarder.NewForwarder(between, broker, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: forwarderTopic})
	if err != nil {
		return err
	}
	forwarded := make(chan error, 1)
	go func() { forwarded <- f.Run(ctx) }()
	<-f.Running()
	relay, err := outrider.New(cfg, outrider.WithDestination("forwarder", between))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	for _, topic := range []struct {
		name     string
		messages <-chan *message.Message
	}{{"orders", orders}, {"invoices", invoices}} {
		select {
		case msg := <-topic.messages:
			fmt.Fprintf(out, "%s: %s %q by %s\n", topic.name, msg.UUID, msg.Payload, msg.Metadata["by"])
			msg.Ack()
		case err := <-ended:
			return errors.Join(errors.New("the relay ended early"), err)
		}
	}
	stop()
	return errors.Join(<-ended, f.Close(), <-forwarded)
}
