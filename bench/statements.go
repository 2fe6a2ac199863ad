package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"

	"github.com/jackc/pgx/v5"
)

// counted is Outrider on a server with pg_stat_statements.
type counted struct {
	peers.Outrider
	kinds []statements
}

// statements is a kind of statements, by their text.
type statements struct {
	name    string
	pattern string // a regular expression of PostgreSQL
}

// Outrider's statements on its own layout and on FlowCatalyst's.
var (
	logStatements = []statements{
		{"settle", `^\s*(UPDATE ("?public"?\.)?"?outrider_cursor"? AS c|WITH s AS MATERIALIZED.*outrider_settled)`},
		{"read", `^\s*(SELECT|WITH|\().*outrider_outbox`},
	}
	queueStatements = []statements{
		{"settle", `^\s*UPDATE ("?public"?\.)?"?outbox_events`},
		{"claim", `^\s*(SELECT|WITH|\().*outbox_events`},
	}
)

// Provide checks that the server has pg_stat_statements.
func (counted) Provide(ctx context.Context, s *measure.Servers, _ func(string, ...any)) error {
	return s.On(ctx, func(ctx context.Context, db *pgx.Conn) error {
		var libraries string
		if err := db.QueryRow(ctx, "SHOW shared_preload_libraries").Scan(&libraries); err != nil {
			return err
		}
		if !strings.Contains(libraries, "pg_stat_statements") {
			return fmt.Errorf("the server has shared_preload_libraries = '%s': add pg_stat_statements (`make bench` does, where it is installed)", libraries)
		}
		return nil
	})
}

func (c counted) Create(ctx context.Context, db *pgx.Conn) error {
	if err := c.Outrider.Create(ctx, db); err != nil {
		return err
	}
	_, err := db.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
	return err
}

// cost is the cost of statements so far.
type cost struct {
	calls        int64
	milliseconds float64
	wal          int64 // bytes of the write-ahead log
}

// minus returns the cost since before.
func (c cost) minus(before cost) cost {
	return cost{c.calls - before.calls, c.milliseconds - before.milliseconds, c.wal - before.wal}
}

// each is the time of a call, in milliseconds.
func (c cost) each() float64 { return c.milliseconds / max(float64(c.calls), 1) }

// ask returns the cost of the statements of this database so far, without its own
// queries.
func (k statements) ask(ctx context.Context, db *pgx.Conn) (c cost, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(total_exec_time), 0)::float8, coalesce(sum(wal_bytes), 0)::bigint
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND query ~ $1 AND query !~ 'pg_stat_statements'`, k.pattern).Scan(&c.calls, &c.milliseconds, &c.wal)
	return c, err
}
