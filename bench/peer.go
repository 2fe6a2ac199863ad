package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// peer is a way from PostgreSQL to Kafka. It has a database to itself, in which
// the harness has written the backlog to the table [eventTable].
type peer interface {
	// name is what -peers and the tables call it.
	name() string

	// about says how it is set up, for the reader of the table.
	about() string

	// rows is the backlog that it gets in the scenario drain.
	rows(o *options) int

	// create makes the peer's tables and fills them from [eventTable]. The
	// clock does not run.
	create(ctx context.Context, db *pgx.Conn, j job) error

	// rewind forgets what earlier runs delivered, and waits until the backlog
	// can be read. The clock does not run.
	rewind(ctx context.Context, db *pgx.Conn) error

	// backlog is a query for the columns group and payload, both as text, in
	// the order in which each group must arrive.
	backlog() string

	// relay delivers from the job's database to its topic until ctx ends, then
	// stops cleanly. It runs in a process of its own.
	relay(ctx context.Context, j job) error
}

// job is where a relay finds its backlog, and where that goes.
type job struct {
	Peer     string   `json:"peer"`
	Postgres string   `json:"postgres"` // URL of the peer's database
	Brokers  []string `json:"brokers"`
	Topic    string   `json:"topic"`
	Profile  string   `json:"profile"` // file for a CPU profile; empty: none
}

// peers are all that there are, in the order of the default of -peers.
var peers = []peer{floor{}, embedded{}, stock{}}

// peerNamed returns nil for an unknown name.
func peerNamed(name string) peer {
	for _, p := range peers {
		if p.name() == name {
			return p
		}
	}
	return nil
}

func namesOf(list []peer) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.name()
	}
	return out
}
