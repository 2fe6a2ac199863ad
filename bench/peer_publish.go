package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// publishing is a way of writing a message in a transaction. It relays nothing: the
// same relay runs at the same time, with the way's setting of wake.
type publishing struct {
	label    string
	settings string
	wake     string // of the relay's source
	trigger  bool   // the table has the trigger that wakes
	prepare  func() (publishFunc, error)
}

// publishFunc writes one message in a transaction, in one round trip.
type publishFunc func(ctx context.Context, tx pgx.Tx, e outbox.Envelope) error

// The statements of the ways without the client.
const (
	bareInsert    = "INSERT INTO outrider_outbox (id, type, message_group, payload, occurred_at) VALUES ($1, $2, $3, $4, $5)"
	notifyingText = "WITH published AS (" + bareInsert + ") SELECT pg_notify('" + outbox.WakeChannel + "', 'outrider_outbox')"
)

// The ways of publishing that are compared.
var (
	bareWay = publishing{label: "insert", wake: "poll", prepare: inserting(bareInsert),
		settings: "BEGIN, a plain INSERT, COMMIT, with pgx"}
	clientWay = publishing{label: "insert-publish", wake: "poll", prepare: client(false),
		settings: "BEGIN, outbox.Client's Publish, COMMIT"}
	notifyWay = publishing{label: "insert-publish-notify", wake: "notify", prepare: client(true),
		settings: "the same with Notify, and wake: notify at the relay"}
	triggerWay = publishing{label: "insert-trigger", wake: "notify", trigger: true, prepare: inserting(bareInsert),
		settings: "the plain INSERT with the trigger of `outrider init --notify`"}
	alwaysWay = publishing{label: "insert-notify-always", wake: "poll", prepare: inserting(notifyingText),
		settings: "the plain INSERT with a pg_notify in every transaction, for comparison"}
)

func inserting(text string) func() (publishFunc, error) {
	return func() (publishFunc, error) {
		return func(ctx context.Context, tx pgx.Tx, e outbox.Envelope) error {
			_, err := tx.Exec(ctx, text, e.ID(), e.Type(), e.Group(), string(e.Payload()), e.OccurredAt())
			return err
		}, nil
	}
}

func client(notify bool) func() (publishFunc, error) {
	return func() (publishFunc, error) {
		c, err := outbox.NewClient(outbox.ClientConfig{Notify: notify})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx pgx.Tx, e outbox.Envelope) error { return c.Publish(ctx, tx, e) }, nil
	}
}

func (p publishing) Name() string  { return p.label }
func (p publishing) About() string { return p.settings }

// The other methods of [peers.Peer] are for a backlog, which publishing has not.
func (publishing) Create(context.Context, *pgx.Conn) error { return nil }
func (publishing) Rewind(context.Context, *pgx.Conn) error { return nil }
func (publishing) Backlog() string                         { return "SELECT '', '' WHERE false" }
func (publishing) Relay(context.Context, measure.Job) error {
	return errors.New("it relays nothing")
}

// config returns the configuration of the relay.
func (p publishing) config(url string) string {
	return fmt.Sprintf(`
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: %q, wake: %s}}
destinations: {nowhere: {type: discard}}
routes: {all: {from: app, to: nowhere, start: beginning}}
`, url, p.wake)
}

// envelope makes the nth message.
func envelope(n, groups int, payload []byte) (outbox.Envelope, error) {
	return outbox.New("order.created").Group(fmt.Sprint("g", n%groups)).OccurredAt(time.Now()).RawJSON(payload).Build()
}
