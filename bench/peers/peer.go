// Package peers has the relays that are compared: Outrider in several settings,
// hand-written loops, the stock Watermill pipeline, Debezium and River. Each makes
// its own tables from a backlog and relays in a process of its own.
package peers

import (
	"context"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// Peer relays from an outbox table to the destination of a scenario. It has its own
// database, in which the harness has written the backlog to the table
// [measure.EventTable].
type Peer interface {
	// Name is its name in tables; -peers uses the part before the first hyphen.
	// Peers of different scenarios may share a name.
	Name() string

	// About describes its settings, for the reader of the table.
	About() string

	// Create makes the peer's tables and fills them from [measure.EventTable]. The
	// clock does not run.
	Create(ctx context.Context, db *pgx.Conn) error

	// Rewind forgets what earlier runs delivered, and waits until the backlog
	// can be read. The clock does not run.
	Rewind(ctx context.Context, db *pgx.Conn) error

	// Backlog is a query for the columns group and payload, both as text, in
	// the order in which each group must arrive.
	Backlog() string

	// Relay delivers from the job's database to the job's destination until ctx
	// ends, then stops cleanly. It runs in a process of its own.
	Relay(ctx context.Context, j measure.Job) error
}
