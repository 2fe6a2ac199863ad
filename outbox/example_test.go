package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// placeOrder changes the application's data and publishes what happened, in
// one pgx transaction.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, client *outbox.Client, customer string, total int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// Orders of one customer must arrive in order, and there is no row of
		// the customer to lock: take the lock of the group instead.
		if err := outbox.Lock(ctx, tx, customer); err != nil {
			return err
		}
		var id int
		err := tx.QueryRow(ctx, `INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id`, customer, total).Scan(&id)
		if err != nil {
			return err
		}
		created, err := outbox.New("order.created").
			Group(customer).
			Aggregate("order", strconv.Itoa(id)).
			JSON(map[string]any{"order": id, "total": total}).
			Build()
		if err != nil {
			return err
		}
		return client.Publish(ctx, tx, created)
	})
}

// Publishing from an application that uses pgx.
func ExampleClient_Publish_pgx() { //nolint:testableexamples // it needs a server; the test below runs placeOrder
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@127.0.0.1/app")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	client, err := outbox.NewClient(outbox.ClientConfig{})
	if err != nil {
		panic(err)
	}
	if err := placeOrder(ctx, pool, client, "customer-7", 12); err != nil {
		panic(err)
	}
}

func TestExampleClient_Publish_pgx(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, customer text, total int CHECK (total > 0))`)
	must(t, err)
	c := client(t, outbox.PostgreSQL)
	must(t, placeOrder(t.Context(), pool, c, "customer-7", 12))
	if err := placeOrder(t.Context(), pool, c, "customer-7", -1); err == nil {
		t.Error("an impossible order was placed")
	}
	var got string
	must(t, pool.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', type, message_group, aggregate_type, aggregate_id, payload), '; ') FROM outrider_outbox`).Scan(&got))
	if want := `order.created customer-7 order 1 {"order":1,"total":12}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Publishing with database/sql; here to SQLite, in memory.
func ExampleClient_Publish() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if _, err := db.ExecContext(ctx, fmt.Sprintf(sqliteTable, outbox.DefaultTable)); err != nil {
		panic(err)
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	if err != nil {
		panic(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	created, err := outbox.New("order.created").Group("customer-7").JSON(map[string]int{"order": 42}).Build()
	if err != nil {
		panic(err)
	}
	paid, err := outbox.New("order.paid").Group("customer-7").JSON(map[string]int{"order": 42}).Build()
	if err != nil {
		panic(err)
	}
	if err := client.Publish(ctx, tx, created, paid); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}

	var first, last string
	err = db.QueryRowContext(ctx, `SELECT a.type, b.type || ' ' || b.payload FROM outrider_outbox a, outrider_outbox b
		WHERE a.position = 1 AND b.position = 2`).Scan(&first, &last)
	fmt.Println(first, err)
	fmt.Println(last)
	// Output:
	// order.created <nil>
	// order.paid {"order":42}
}

// A transaction with a hook. What fn calls publishes with a nil tx: the context carries the transaction.
func ExampleInTx() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if _, err := db.ExecContext(ctx, fmt.Sprintf(sqliteTable, outbox.DefaultTable)); err != nil {
		panic(err)
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite})
	if err != nil {
		panic(err)
	}
	event, err := outbox.New("order.created").Group("customer-7").JSON(map[string]int{"order": 42}).Build()
	if err != nil {
		panic(err)
	}

	err = outbox.InTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error {
		// ... the application's own statements, with the tx
		if err := outbox.AfterCommit(ctx, func(context.Context) { fmt.Println("committed: wake the relay") }); err != nil {
			return err
		}
		return client.Publish(ctx, nil, event)
	})
	fmt.Println(err)

	err = outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		if err := client.Publish(ctx, tx, event); err != nil {
			return err
		}
		return errors.New("out of stock") // rolls back
	})
	var n int
	fmt.Println(err, db.QueryRowContext(ctx, "SELECT count(*) FROM outrider_outbox").Scan(&n))
	fmt.Println(n, "message")

	fmt.Println(errors.Is(client.Publish(ctx, nil, event), outbox.ErrNoTransaction))
	// Output:
	// committed: wake the relay
	// <nil>
	// out of stock <nil>
	// 1 message
	// true
}

// Everything that is wrong is told at once.
func ExampleBuilder_Build() {
	_, err := outbox.New("order.created").Group("customer\n7").Header("outrider_lane", "x").Build()
	fmt.Println(err)
	// Output:
	// outbox: envelope of type "order.created" cannot be published: group: contains a control character; remove it; header "outrider_lane": the prefix "outrider_" is Outrider's own; choose another name; payload: is required; call one of JSON, RawJSON and Bytes
}
