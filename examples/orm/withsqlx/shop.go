// Package withsqlx publishes from an application that uses sqlx, here on SQLite.
package withsqlx

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/jmoiron/sqlx"

	"github.com/outriderhq/outrider/outbox"
)

// Order is a row of the application, and the payload of OrderPlaced.
type Order struct {
	ID       int64
	Customer string
	Total    int
}

// OrderPlaced is the event of a new order.
const OrderPlaced outbox.Type[Order] = "order.placed"

// Shop is the application.
type Shop struct {
	DB     *sqlx.DB
	Client *outbox.Client
}

// database begins transactions of sqlx for outbox.InTx.
type database struct{ *sqlx.DB }

// BeginTx begins a transaction.
func (db database) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sqlx.Tx, error) {
	return db.BeginTxx(ctx, opts)
}

// Place stores an order and publishes its event in one transaction. placed is called after the commit.
func (s *Shop) Place(ctx context.Context, o Order, placed func()) error {
	return outbox.InTx(ctx, database{s.DB}, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := outbox.AfterCommit(ctx, func(context.Context) { placed() }); err != nil {
			return err
		}
		res, err := tx.NamedExecContext(ctx, "INSERT INTO orders (customer, total) VALUES (:customer, :total)", o)
		if err != nil {
			return err
		}
		if o.ID, err = res.LastInsertId(); err != nil {
			return err
		}
		event, err := OrderPlaced.New(o).Group(o.Customer).Aggregate("order", strconv.FormatInt(o.ID, 10)).Build()
		if err != nil {
			return err
		}
		return s.Client.Publish(ctx, tx, event) // a *sqlx.Tx is a *sql.Tx
	})
}
