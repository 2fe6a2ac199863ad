package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
)

// embedded is Outrider, embedded as an application would embed it. Everything that
// is on by default is on.
type embedded struct{}

func (embedded) name() string { return "outrider" }

func (embedded) about() string {
	return "package outrider with the default settings: snapshot cursor, epochs, settling, parking, " +
		"poison, retry and timeout, watermill-kafka's wire format, metrics"
}

func (embedded) rows(o *options) int { return o.rows }

// relayConfig names what a default configuration must: where from and where to.
const relayConfig = `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: %q}}
destinations: {bus: {type: kafka, brokers: [%s], topic: %q}}
routes: {orders: {from: app, to: bus, start: beginning}}
`

func (embedded) config(j job) (*outrider.Config, error) {
	quoted := make([]string, len(j.Brokers))
	for i, b := range j.Brokers {
		quoted[i] = fmt.Sprintf("%q", b)
	}
	url := strings.ReplaceAll(j.Postgres, "$", "$$") // a dollar sign would begin a variable
	text := fmt.Sprintf(relayConfig, url, strings.Join(quoted, ", "), j.Topic)
	return outrider.ParseConfig("bench", []byte(text))
}

func (e embedded) create(ctx context.Context, db *pgx.Conn, j job) error {
	cfg, err := e.config(j)
	if err != nil {
		return err
	}
	if _, err := outrider.Init(ctx, cfg); err != nil {
		return err
	}
	// occurred_at, because outbox.Client always writes it.
	return fillFromEvents(ctx, db, `
		INSERT INTO outrider_outbox (id, type, message_group, payload, occurred_at)
		SELECT id, 'order.created', message_group, payload, now()`)
}

func (embedded) rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE outrider_cursor, outrider_parked, outrider_instance, outrider_audit")
	return err
}

func (embedded) backlog() string {
	return "SELECT message_group, payload::text FROM outrider_outbox ORDER BY position"
}

func (e embedded) relay(ctx context.Context, j job) error {
	cfg, err := e.config(j)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	outrider.TuneMemory(cfg) // as `outrider run` does
	o, err := outrider.New(cfg, outrider.WithLogger(log))
	if err != nil {
		return err
	}
	return o.Run(ctx)
}
