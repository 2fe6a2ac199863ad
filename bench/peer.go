package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// peer is a way from an outbox table to where a scenario's messages go. It has a
// database to itself, in which the harness has written the backlog to the table
// [eventTable].
type peer interface {
	// name is what tables call it, and -peers as far as the first hyphen; peers
	// of different scenarios may share one.
	name() string

	// about says how it is set up, for the reader of the table.
	about() string

	// create makes the peer's tables and fills them from [eventTable]. The
	// clock does not run.
	create(ctx context.Context, db *pgx.Conn) error

	// rewind forgets what earlier runs delivered, and waits until the backlog
	// can be read. The clock does not run.
	rewind(ctx context.Context, db *pgx.Conn) error

	// backlog is a query for the columns group and payload, both as text, in
	// the order in which each group must arrive.
	backlog() string

	// relay delivers from the job's database to where the job says until ctx
	// ends, then stops cleanly. It runs in a process of its own.
	relay(ctx context.Context, j job) error
}
