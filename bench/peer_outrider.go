package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// outriderName is the name of the peers that are Outrider; chainsName, that of
// the one with a middleware of the application's.
const (
	outriderName = "outrider"
	chainsName   = outriderName + "-chains"
)

// embedded is Outrider, embedded as an application would embed it. Everything that
// is on by default is on.
type embedded struct {
	label    string // its name
	settings string // for the reader
	config   string // with {postgres}, {mysql}, {mongodb}, {database}, {brokers}, {topic} and {url}
	table    table
	options  []outrider.Option
}

// table is the outbox table that Outrider reads.
type table interface {
	// fill fills the table from [eventTable].
	fill(ctx context.Context, db *pgx.Conn) error

	// rewind and backlog are those of [peer].
	rewind(ctx context.Context, db *pgx.Conn) error
	backlog() string

	// insert is a statement that publishes one message: $1 id, $2 group, $3 payload.
	insert() string

	// empty is that of [emptying].
	empty() string

	// verify is that of [verifier].
	verify(ctx context.Context, db *pgx.Conn) error
}

// toKafka names what a default configuration must: where from and where to.
var toKafka = embedded{
	label: outriderName,
	settings: "package outrider with the default settings: snapshot cursor, epochs, settling, parking, " +
		"poison, retry and timeout, watermill-kafka's wire format, metrics",
	config: `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: {postgres}}}
destinations: {bus: {type: kafka, brokers: [{brokers}], topic: {topic}}}
routes: {orders: {from: app, to: bus, start: beginning}}
`,
	table: ownTable{},
}

// chained is Outrider where the chains of messages wait for their deliveries,
// because a middleware might do something before.
func chained() embedded {
	e := toKafka.as("chains")
	e.settings = "outrider with a middleware of the application's that works before the delivery, here one that checks the payload and sets " +
		"a header: each message waits for its delivery in its chain, instead of running through it afterwards"
	check := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if !json.Valid(msg.Payload) {
				return nil, outbox.Permanent(errors.New("the payload is not JSON"))
			}
			msg.Metadata.Set("checked", "json")
			return h(msg)
		}
	}
	e.options = []outrider.Option{outrider.WithMiddleware("orders", check)}
	return e
}

func (e embedded) name() string                                   { return e.label }
func (e embedded) about() string                                  { return e.settings }
func (e embedded) rewind(ctx context.Context, db *pgx.Conn) error { return e.table.rewind(ctx, db) }
func (e embedded) empty() string                                  { return e.table.empty() }
func (e embedded) backlog() string                                { return e.table.backlog() }
func (e embedded) insert() string                                 { return e.table.insert() }
func (e embedded) verify(ctx context.Context, db *pgx.Conn) error { return e.table.verify(ctx, db) }

// as returns the same Outrider with a name of its own.
func (e embedded) as(way string) embedded {
	e.label = outriderName + "-" + way
	return e
}

// parse fills in the job. A dollar sign would begin a variable.
func (e embedded) parse(j job) (*outrider.Config, error) {
	quoted := make([]string, len(j.Brokers))
	for i, b := range j.Brokers {
		quoted[i] = fmt.Sprintf("%q", b)
	}
	text := strings.NewReplacer(
		"{postgres}", strings.ReplaceAll(fmt.Sprintf("%q", j.Postgres), "$", "$$"),
		"{brokers}", strings.Join(quoted, ", "),
		"{topic}", fmt.Sprintf("%q", j.Topic),
		"{url}", j.URL,
		"{mysql}", fmt.Sprintf("%q", mariaURL(databaseOf(j.Postgres))),
		"{mongodb}", fmt.Sprintf("%q", os.Getenv(envMongoDB)),
		"{database}", databaseOf(j.Postgres),
	).Replace(e.config)
	return outrider.ParseConfig("bench", []byte(text))
}

// parseFor is for what depends only on the peer's database.
func (e embedded) parseFor(db *pgx.Conn) (*outrider.Config, error) {
	return e.parse(job{Postgres: db.Config().ConnString(), Brokers: []string{"127.0.0.1:1"}, Topic: "none", URL: "http://127.0.0.1:1"})
}

func (e embedded) create(ctx context.Context, db *pgx.Conn) error {
	cfg, err := e.parseFor(db)
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	return e.table.fill(ctx, db)
}

func (e embedded) relay(ctx context.Context, j job) error {
	cfg, err := e.parse(j)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	doctor.TuneMemory(cfg) // as `outrider run` does
	o, err := outrider.New(cfg, append(e.options, outrider.WithLogger(log))...)
	if err != nil {
		return err
	}
	return o.Run(ctx)
}
