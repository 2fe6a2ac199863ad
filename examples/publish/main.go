// Command publish is the service of docs/quickstart.md: an HTTP API that writes an order and its event in one transaction. It delivers nothing
// itself; a relay that runs elsewhere does.
//
//	export DATABASE_URL='postgres://shop:secret@127.0.0.1:5432/shop'
//	go run ./examples/publish
//	curl -X POST 'http://127.0.0.1:8090/orders?customer=heron&cents=1200'
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// Order is a row of the table orders, and the payload of its event.
type Order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Getenv("DATABASE_URL"), "127.0.0.1:8090")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, url, address string) error {
	s, err := newShop(ctx, url)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	server := &http.Server{Addr: address, Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	defer stopped()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shop has the database, and the client that writes events.
type shop struct {
	pool   *pgxpool.Pool
	client *outbox.Client
}

// newShop makes the table of orders; `outrider init` makes the outbox.
func newShop(ctx context.Context, url string) (*shop, error) {
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.PostgreSQL})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL CHECK (cents > 0))`)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &shop{pool, client}, nil
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		cents, _ := strconv.ParseInt(r.FormValue("cents"), 10, 64) // 0 is refused by the table
		o, err := s.place(r.Context(), Order{Customer: r.FormValue("customer"), Cents: cents})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintln(w, "order", o.ID) // the client may have gone
	})
	return mux
}

// place writes the order and its event: both are committed, or neither is.
func (s *shop) place(ctx context.Context, o Order) (Order, error) {
	err := outbox.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := outbox.Lock(ctx, tx, o.Customer); err != nil { // so that events of a customer are in order
			return err
		}
		if err := tx.QueryRow(ctx, `INSERT INTO orders (customer, cents) VALUES ($1, $2) RETURNING id`, o.Customer, o.Cents).Scan(&o.ID); err != nil {
			return err
		}
		event, err := outbox.New("order.created").Group(o.Customer).Aggregate("order", strconv.FormatInt(o.ID, 10)).JSON(o).Build()
		if err != nil {
			return err
		}
		return s.client.Publish(ctx, tx, event)
	})
	return o, err
}
