package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// promptFloor is the floor of latency: the time that PostgreSQL, Kafka and the
// machine take with a minimal relay between them.
type promptFloor struct{ floor }

// Promptly is the floor of the scenario latency.
var Promptly = promptFloor{floor{pause: time.Millisecond, rows: 200}}

func (f promptFloor) About() string {
	return fmt.Sprintf("the floor of drain with LIMIT %d; it asks again at once after rows, and %v after none", f.rows, f.pause)
}

// Create also writes the cursor: it is not reset between the runs.
func (f promptFloor) Create(ctx context.Context, db *pgx.Conn) error {
	if err := f.floor.Create(ctx, db); err != nil {
		return err
	}
	return f.Rewind(ctx, db)
}

func (promptFloor) Insert() string {
	return "INSERT INTO " + floorTable + " (id, type, message_group, payload, occurred_at) VALUES ($1, 'order.created', $2, $3, now())"
}
