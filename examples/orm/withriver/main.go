// Command withriver is a shop whose orders are shipped by a worker of River. GORM writes an order and its outbox row in one transaction,
// Outrider inserts one job for each row, in the transaction that marks the row as processed, and River works it. The table is the one of
// Yantra's outbox processor (docs/migrate/yantra.md); the code that writes it does not use Outrider.
//
//	DATABASE_URL=postgres://... go run ./withriver
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	postgresdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
)

// Order is a row of the shop.
type Order struct {
	ID       int
	Customer string
	Total    int `gorm:"check:total > 0"`
}

// OutboxMessage is a row of the outbox.
type OutboxMessage struct {
	ID            uuid.UUID
	AggregateID   string
	AggregateType string
	EventType     string
	Payload       json.RawMessage
	Status        string
	CreatedAt     time.Time
	ProcessedAt   *time.Time
}

// Ship are the arguments of the job: the payload of the outbox row.
type Ship struct {
	Order    int    `json:"order"`
	Customer string `json:"customer"`
}

// Kind is the name of the job, and the row's event type.
func (Ship) Kind() string { return "order.placed" }

// place stores an order and its outbox row: both or neither.
func place(ctx context.Context, db *gorm.DB, o Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		payload, err := json.Marshal(Ship{Order: o.ID, Customer: o.Customer})
		if err != nil {
			return err
		}
		return tx.Create(&OutboxMessage{ID: uuid.New(), AggregateID: strconv.Itoa(o.ID), AggregateType: "order", EventType: Ship{}.Kind(),
			Payload: payload, Status: "pending"}).Error
	})
}

// Shipper is the worker.
type Shipper struct {
	river.WorkerDefaults[Ship]
	Out     io.Writer
	Shipped chan<- int
}

// Work ships an order.
func (s *Shipper) Work(_ context.Context, job *river.Job[Ship]) error {
	_, err := fmt.Fprintf(s.Out, "order %d goes to %s\n", job.Args.Order, job.Args.Customer)
	s.Shipped <- job.Args.Order
	return err
}

// settings are Outrider's: rows of the outbox become jobs.
const settings = `
admin: {listen: off}
sources:
  shop: {type: postgres, layout: yantra, url: "%[1]s", poll: {min: 100ms}}
destinations:
  jobs: {type: river, url: "%[1]s"}
routes:
  orders: {from: shop, to: jobs}
`

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run opens the shop, has two orders placed, and closes it when they are shipped.
func run(ctx context.Context, url string, out io.Writer) (err error) {
	db, err := gorm.Open(postgresdriver.Open(url), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return err
	}
	conns, err := db.DB()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, conns.Close()) }()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg, err := outrider.ParseConfig("withriver", fmt.Appendf(nil, settings, url))
	if err != nil {
		return err
	}
	if err := prepare(ctx, cfg, db, pool); err != nil {
		return err
	}

	shipped := make(chan int, 2)
	jobs, err := work(ctx, pool, &Shipper{Out: out, Shipped: shipped})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, jobs.Stop(ctx)) }()
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(relaying) }()

	for _, o := range []Order{{Customer: "heron", Total: 12}, {Customer: "kite", Total: 30}} {
		if err := place(ctx, db, o); err != nil {
			return err
		}
		select {
		case <-shipped:
		case err := <-ended: // the relay could not start
			return err
		}
	}
	if place(ctx, db, Order{Customer: "crow", Total: -1}) == nil {
		return errors.New("an impossible order was placed")
	}
	stop()
	return <-ended
}

// work starts a worker of River's jobs.
func work(ctx context.Context, pool *pgxpool.Pool, s *Shipper) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, s)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return jobs, jobs.Start(ctx)
}

// prepare makes the tables: the shop's, River's, and the outbox with the state of the relay, as `outrider init` does.
func prepare(ctx context.Context, cfg *outrider.Config, db *gorm.DB, pool *pgxpool.Pool) error {
	if err := db.AutoMigrate(&Order{}); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = operate.Init(ctx, cfg)
	return err
}
