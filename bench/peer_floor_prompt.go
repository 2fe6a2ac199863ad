package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// promptFloor is the floor where latency is measured: what PostgreSQL, Kafka and
// the machine take of it however little is in between.
type promptFloor struct{ floor }

var promptly = promptFloor{floor{pause: time.Millisecond, rows: 200}}

func (f promptFloor) about() string {
	return fmt.Sprintf("the floor of drain with LIMIT %d; it asks again at once after rows, and %v after none", f.rows, f.pause)
}

// create also places the cursor: between the runs it stays where it is.
func (f promptFloor) create(ctx context.Context, db *pgx.Conn) error {
	if err := f.floor.create(ctx, db); err != nil {
		return err
	}
	return f.rewind(ctx, db)
}

func (promptFloor) insert() string {
	return "INSERT INTO " + floorTable + " (id, type, message_group, payload, occurred_at) VALUES ($1, 'order.created', $2, $3, now())"
}
