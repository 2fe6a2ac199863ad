package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/outbox"
)

// rollbackOneIn: one in so many transactions is rolled back.
const rollbackOneIn = 10

const (
	createOrders = `CREATE TABLE orders (
    id       INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    account  TEXT NOT NULL,
    number   INTEGER NOT NULL,
    item     TEXT NOT NULL,
    UNIQUE (account, number)
)`
	insertOrder = `INSERT INTO orders (id, customer, account, number, item)
VALUES (?1, ?2, ?3, (SELECT coalesce(max(number), 0) + 1 FROM orders WHERE account = ?3), ?4)
RETURNING number`
	selectOrders = `SELECT id FROM orders`
)

var items = []string{"binoculars", "field guide", "nest box", "ring", "scope", "sunflower seeds"}

// shop is the application. It has its own database, and shares only the outbox table
// with the relay.
type shop struct {
	db         *sql.DB
	outbox     *outbox.Client
	lastID     int64
	byRegion   map[string]*atomic.Int64 // orders committed
	rolledBack atomic.Int64
}

func openShop(ctx context.Context, path string) (*shop, error) {
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, createOrders); err != nil {
		return nil, errors.Join(fmt.Errorf("shop: %w", err), db.Close())
	}
	s := &shop{db: db, outbox: client, byRegion: map[string]*atomic.Int64{}}
	for _, g := range regions {
		s.byRegion[g.name] = &atomic.Int64{}
	}
	return s, nil
}

func (s *shop) close() error { return s.db.Close() }

// trade takes orders at the given rate per second until ctx ends.
func (s *shop) trade(ctx context.Context, perSecond float64) error {
	pace := rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/20)))
	for pace.Wait(ctx) == nil {
		// Finish the sale even if ctx ends.
		if err := s.sell(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("shop: %w", err)
		}
	}
	return nil
}

// sell commits one order and its message together, or neither.
func (s *shop) sell(ctx context.Context) error {
	s.lastID++
	g := regions[chance(len(regions))]
	customer := g.customers[chance(len(g.customers))]
	o := order{
		ID: s.lastID, Customer: customer,
		Account: fmt.Sprintf("%s-%d", customer, 1+chance(accountsPerCustomer)),
		Item:    items[chance(len(items))],
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.write(ctx, tx, o); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if chance(rollbackOneIn) == 0 {
		s.rolledBack.Add(1)
		return tx.Rollback()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.byRegion[g.name].Add(1)
	return nil
}

// chance returns one of the numbers 0 to n-1.
func chance(n int) int {
	return rand.IntN(n) //nolint:gosec // it decides what is sold, not who gets in
}

// write stores the order and publishes it, in the transaction.
func (s *shop) write(ctx context.Context, tx *sql.Tx, o order) error {
	if err := tx.QueryRowContext(ctx, insertOrder, o.ID, o.Customer, o.Account, o.Item).Scan(&o.Number); err != nil {
		return err
	}
	envelope, err := outbox.New("order.placed").Group(o.Account).Tenant(o.Customer).JSON(o).Build()
	if err != nil {
		return err
	}
	return s.outbox.Publish(ctx, tx, envelope)
}

// sold returns the number of orders committed since the shop opened.
func (s *shop) sold() int {
	total := 0
	for _, n := range s.byRegion {
		total += int(n.Load())
	}
	return total
}

// committed reads the ids of all orders back from the database.
func (s *shop) committed(ctx context.Context) ([]int64, error) {
	rows, err := s.db.QueryContext(ctx, selectOrders)
	if err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("shop: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
