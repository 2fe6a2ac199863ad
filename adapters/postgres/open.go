package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
)

// TLS says how connections by URL are encrypted. The zero value is safe.
type TLS = pg.TLS

// Grantees are the names of the roles that statements grant to. Where one is empty,
// the statements for it are comments.
type Grantees = pg.Grantees

// Grants are the privileges that roles need, by task.
type Grants = pg.Grants

// Wake is how a source notices new rows.
type Wake = wake.Mode

// The ways of noticing new rows.
const (
	WakePoll        = wake.Poll        // by reading again and again; the default
	WakeNotify      = wake.Notify      // by NOTIFY as well, on a connection of its own
	WakeReplication = wake.Replication // by the server's WAL as well, on a connection of its own
	WakeAuto        = wake.Auto        // by WAL where the role may read it, else by NOTIFY where the tables have the trigger
)

// Open returns a pool of connections to a database for other work than the relay's,
// opened as the relay opens them. It does not connect.
func Open(ctx context.Context, url string, security TLS) (*pgxpool.Pool, error) {
	c := pg.Connection{URL: url, TLS: security}
	return c.Open(ctx)
}

// OpenConfig is [Open] for connections as a pool's configuration describes them,
// such as that of an application.
func OpenConfig(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	c := pg.Connection{Config: config}
	pc, err := c.PoolConfig()
	if err != nil {
		return nil, err
	}
	pc.MinConns, pc.MinIdleConns = 0, 0
	return pgxpool.NewWithConfig(ctx, pc)
}

// ConnectionProblem returns what keeps a connection from being made, in one sentence
// without passwords, when that is what an error of this package is about. The same
// problem of two connections has the same text.
func ConnectionProblem(err error) (text string, ok bool) {
	if e, is := pg.NotConnected(err); is {
		return e.Text, true
	}
	return "", false
}

// ConnectionLost reports whether an error of this package is about a connection that ended early.
func ConnectionLost(err error) bool { return pg.Lost(err) }

// ConnectionFix is what to do about a [ConnectionProblem]; empty for any other error.
func ConnectionFix(err error) string { return pg.ConnectionFix(err) }

// Locate returns the full name of a table, schema first. The table is given as in
// SQL; without a schema it is looked for in the search path that the pool's
// connections were opened with. A table that is missing is an error.
func Locate(ctx context.Context, pool *pgxpool.Pool, table string) (pgx.Identifier, error) {
	name, err := pg.ParseTable(table)
	if err == nil {
		name, err = pg.LocateTable(ctx, pool, name)
	}
	return name, pg.DescribeOwn(table, "look for", err)
}
