package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// The names of Outrider, and of Outrider with a middleware of the application.
const (
	OutriderName = "outrider"
	ChainsName   = OutriderName + "-chains"
)

// Outrider is a relay that is embedded as in an application, with all defaults on.
type Outrider struct {
	label    string // its name
	Settings string // for the reader
	Config   string // with {postgres}, {mysql}, {mongodb}, {database}, {brokers}, {topic} and {url}
	table    table
	options  []outrider.Option
}

// table is the outbox table that Outrider reads.
type table interface {
	// fill fills the table from [measure.EventTable].
	fill(ctx context.Context, db *pgx.Conn) error

	// Rewind and Backlog are those of [Peer].
	Rewind(ctx context.Context, db *pgx.Conn) error
	Backlog() string

	// Insert is a statement that publishes one message: $1 id, $2 group, $3 payload.
	Insert() string

	// Empty is a statement that deletes all rows and the state of the relay.
	Empty() string

	// Verify returns an error unless the table marks every row as delivered.
	Verify(ctx context.Context, db *pgx.Conn) error
}

// ToKafka has the minimal configuration: a source and a destination.
var ToKafka = Outrider{
	label: OutriderName,
	Settings: "package outrider with the default settings: snapshot cursor, epochs, settling, parking, " +
		"poison, retry and timeout, watermill-kafka's wire format, metrics",
	Config: `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: {postgres}}}
destinations: {bus: {type: kafka, brokers: [{brokers}], topic: {topic}}}
routes: {orders: {from: app, to: bus, start: beginning}}
`,
	table: ownTable{},
}

// Chained is Outrider with a middleware of the application, so that each message
// waits in its chain for its delivery.
func Chained() Outrider {
	e := ToKafka.As("chains")
	e.Settings = "outrider with a middleware of the application's that works before the delivery, here one that checks the payload and sets " +
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

// Name implements [Peer].
func (e Outrider) Name() string { return e.label }

// About implements [Peer].
func (e Outrider) About() string { return e.Settings }

// Rewind implements [Peer].
func (e Outrider) Rewind(ctx context.Context, db *pgx.Conn) error { return e.table.Rewind(ctx, db) }

// Empty returns a statement that deletes all rows and the state of the relay.
func (e Outrider) Empty() string { return e.table.Empty() }

// Backlog implements [Peer].
func (e Outrider) Backlog() string { return e.table.Backlog() }

// Insert returns a statement that publishes one message: $1 id, $2 group, $3 payload.
func (e Outrider) Insert() string { return e.table.Insert() }

// Verify returns an error unless the table marks every row as delivered.
func (e Outrider) Verify(ctx context.Context, db *pgx.Conn) error { return e.table.Verify(ctx, db) }

// As returns the same Outrider with a name of its own.
func (e Outrider) As(way string) Outrider {
	e.label = OutriderName + "-" + way
	return e
}

// parse fills in the job. It escapes dollar signs, which would begin variables.
func (e Outrider) parse(j measure.Job) (*outrider.Config, error) {
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
	).Replace(e.Config)
	return outrider.ParseConfig("bench", []byte(text))
}

// ParseFor returns a configuration without a real destination, for commands that
// need only the peer's database.
func (e Outrider) ParseFor(db *pgx.Conn) (*outrider.Config, error) {
	return e.parse(measure.Job{Postgres: db.Config().ConnString(), Brokers: []string{"127.0.0.1:1"}, Topic: "none", URL: "http://127.0.0.1:1"})
}

// Create implements [Peer].
func (e Outrider) Create(ctx context.Context, db *pgx.Conn) error {
	cfg, err := e.ParseFor(db)
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	return e.table.fill(ctx, db)
}

// Relay implements [Peer].
func (e Outrider) Relay(ctx context.Context, j measure.Job) error {
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
