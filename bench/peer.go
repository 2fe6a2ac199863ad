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
	create(ctx context.Context, db *pgx.Conn, j job) error

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

// loading is a peer that fills its own table, which is faster than by way of
// [eventTable].
type loading interface {
	load(ctx context.Context, db *pgx.Conn, e entry, size int) error
}

// verifier is a peer whose table shows afterwards the outcome of the rows.
type verifier interface {
	// verify returns an error unless the table says of every row that it was
	// delivered.
	verify(ctx context.Context, db *pgx.Conn) error
}

// cleaning is a peer that has made more than the stage's database, which has an URL.
type cleaning interface {
	clean(ctx context.Context, postgres string) error
}

// demanding is a peer that needs more than PostgreSQL and Kafka as they are.
type demanding interface {
	// provide gets what the peer needs, which may take minutes the first time. An
	// error says why the peer cannot run here: the run continues without it.
	provide(ctx context.Context, s *servers, say func(format string, args ...any)) error
}

// warming is a peer whose work is done by another program, which is slow to start
// and slow until it has run for a while, as programs on a JVM are.
type warming interface {
	// warms reports whether the peer's clock starts when the program is warm. If not,
	// it starts with the process, like everybody's.
	warms() bool

	// warmRelay is relay. If the peer warms it calls warm once, with the id of the
	// program's process, when the program has delivered enough that does not count;
	// what counts comes right behind it. It returns the most memory that the program
	// had resident, in bytes, 0 where the system does not tell.
	warmRelay(ctx context.Context, j job, warm func(pid int) error) (peak int64, err error)
}

// warms reports whether a peer's clock starts when it is warm.
func warms(p peer) bool {
	w, ok := p.(warming)
	return ok && w.warms()
}

// disorderly is a peer that does not keep the order within groups: its runs
// count although messages came out of order.
type disorderly interface{ disorderly() }

// job is where a relay finds its backlog, and where that goes.
type job struct {
	Scenario string   `json:"scenario"`
	Peer     string   `json:"peer"`
	Postgres string   `json:"postgres"` // URL of the peer's database
	Brokers  []string `json:"brokers"`
	Topic    string   `json:"topic"`   // to Kafka
	URL      string   `json:"url"`     // to an HTTP receiver
	Profile  string   `json:"profile"` // file for a CPU profile; empty: none
}

// nowhere is the job that tables are made with: they depend only on the
// database.
func nowhere(postgres string) job {
	return job{Postgres: postgres, Brokers: []string{"127.0.0.1:1"}, Topic: "none", URL: "http://127.0.0.1:1"}
}

// peerNamed returns nil for an unknown name.
func (sc *scenario) peerNamed(name string) peer {
	for _, p := range sc.peers {
		if p.name() == name {
			return p
		}
	}
	return nil
}
