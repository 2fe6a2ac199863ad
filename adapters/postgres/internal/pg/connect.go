package pg

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectLimit is how long a connection may take to open, where the URL does
// not say (connect_timeout). A server that accepts connections and never answers, as a
// proxy of a server that is gone, would otherwise be waited for without end,
// and without a word.
const connectLimit = 10 * time.Second

// Connection says how a database is reached.
type Connection struct {
	URL    string
	TLS    TLS
	Config *pgxpool.Config // in place of a URL; not changed
	Tracer pgx.QueryTracer // may be nil

	Application string // application_name, where none is given
	MaxConns    int32  // connections; 0: as the configuration says
}

// PoolConfig returns the configuration of a pool, as a copy, with a limit for opening
// a connection and our search path.
func (c *Connection) PoolConfig() (*pgxpool.Config, error) {
	pc, err := c.given()
	if err != nil {
		return nil, err
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = connectLimit
	}
	if c.MaxConns > 0 {
		pc.MaxConns, pc.MinConns, pc.MinIdleConns = c.MaxConns, 0, 0
	}
	if c.Tracer != nil {
		pc.ConnConfig.Tracer = c.Tracer
	}
	if params := pc.ConnConfig.RuntimeParams; params["application_name"] == "" && c.Application != "" {
		params["application_name"] = c.Application
	}
	pc.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // what Go writes; the server's default is the encoding of the database
	pinConnections(pc)
	restAfterRefusals(pc)
	return pc, nil
}

// given returns what the configuration says.
func (c *Connection) given() (*pgxpool.Config, error) {
	if c.Config != nil && c.URL != "" {
		return nil, errors.New("both a URL and a pool configuration are given; give one of them")
	}
	if c.Config != nil {
		if c.Config.ConnConfig == nil {
			return nil, errors.New("the pool configuration has no ConnConfig; make it with pgxpool.ParseConfig")
		}
		return c.Config.Copy(), nil
	}
	if c.URL == "" {
		return nil, errors.New("no URL is given; write postgres://user:password@host:port/database")
	}
	pc, err := pgxpool.ParseConfig(ownMode(c.URL))
	if err != nil || looksSplit(pc.ConnConfig) {
		// The error of pgx may quote parts of the password; it is not repeated.
		return nil, errors.New("the URL cannot be parsed; write postgres://user:password@host:port/database " +
			"and percent-encode special characters of the password")
	}
	return pc, c.TLS.secure(&pc.ConnConfig.Config, c.URL)
}

// Open returns a pool of connections as they are configured. It does not connect.
func (c *Connection) Open(ctx context.Context) (*pgxpool.Pool, error) {
	pc, err := c.PoolConfig()
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// ConnectBeside opens a connection like those of a pool, with its hooks, that is none of
// them. It neither waits for a place in the pool, which calls to a server that has fallen
// silent may all have taken, nor gets a connection that was broken before. adjust may
// change the configuration.
func ConnectBeside(ctx context.Context, pool *pgxpool.Pool, adjust func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	pc, err := beside(ctx, pool, adjust)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil || pc.AfterConnect == nil {
		return conn, err
	}
	if err := pc.AfterConnect(ctx, conn); err != nil {
		Close(conn)
		return nil, err
	}
	return conn, nil
}

// Dial is [ConnectBeside] for a connection that does not take SQL, so without the pool's hook AfterConnect.
func Dial(ctx context.Context, pool *pgxpool.Pool, adjust func(*pgconn.Config)) (*pgconn.PgConn, error) {
	pc, err := beside(ctx, pool, func(c *pgx.ConnConfig) { adjust(&c.Config) })
	if err != nil {
		return nil, err
	}
	return pgconn.ConnectConfig(ctx, &pc.ConnConfig.Config)
}

func beside(ctx context.Context, pool *pgxpool.Pool, adjust func(*pgx.ConnConfig)) (*pgxpool.Config, error) {
	pc := pool.Config()
	adjust(pc.ConnConfig)
	if pc.BeforeConnect != nil {
		if err := pc.BeforeConnect(ctx, pc.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pc, nil
}

// Highest is the last character of which the database's encoding has all before it. Another one can fail a statement.
func Highest(conn *pgx.Conn) rune {
	switch conn.PgConn().ParameterStatus("server_encoding") {
	case "UTF8", "SQL_ASCII":
		return unicode.MaxRune
	case "LATIN1":
		return unicode.MaxLatin1
	}
	return unicode.MaxASCII
}

// looksSplit reports whether a host contains what belongs to a password: one
// with an unencoded @ in it was cut in two there.
func looksSplit(cfg *pgx.ConnConfig) bool {
	return strings.Contains(cfg.Host, "@") ||
		slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return strings.Contains(f.Host, "@") })
}

// discardLimit bounds how long the end of a connection is waited for.
const discardLimit = 5 * time.Second

// Close closes a connection and waits for its end, for a while.
func Close(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), discardLimit)
	defer cancel()
	_ = conn.Close(ctx) // nothing depends on a polite end
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}
