// Package withgorm publishes from an application that uses GORM on PostgreSQL.
package withgorm

import (
	"context"
	"database/sql"
	"strconv"

	"gorm.io/gorm"

	"github.com/outriderhq/outrider/outbox"
)

// Order is a row of the application, and the payload of OrderPlaced.
type Order struct {
	ID       int
	Customer string
	Total    int
}

// OrderPlaced is the event of a new order.
const OrderPlaced outbox.Type[Order] = "order.placed"

// Shop is the application.
type Shop struct {
	DB     *gorm.DB
	Client *outbox.Client
}

// Place begins with outbox.InTx, which has hooks, and has GORM work in its transaction. placed is called after the commit.
func (s *Shop) Place(ctx context.Context, o Order, placed func()) error {
	db, err := s.DB.DB()
	if err != nil {
		return err
	}
	return outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		if err := outbox.AfterCommit(ctx, func(context.Context) { placed() }); err != nil {
			return err
		}
		return s.save(ctx, in(ctx, s.DB, tx), o)
	})
}

// PlaceWithGORM begins with GORM, for an application that does so everywhere: GORM's connection pool is then the
// transaction. There are no hooks.
func (s *Shop) PlaceWithGORM(ctx context.Context, o Order) error {
	return s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return s.save(ctx, tx, o) })
}

// save stores an order and publishes its event, in a transaction of GORM.
func (s *Shop) save(ctx context.Context, tx *gorm.DB, o Order) error {
	if err := tx.Create(&o).Error; err != nil {
		return err
	}
	event, err := OrderPlaced.New(o).Group(o.Customer).Aggregate("order", strconv.Itoa(o.ID)).Build()
	if err != nil {
		return err
	}
	return s.Client.Publish(ctx, tx.Statement.ConnPool, event)
}

// in returns a session of GORM whose statements run in a transaction. With a context of its own the session has a
// Statement of its own; otherwise this would change db.
func in(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return session
}
