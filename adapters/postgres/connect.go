package postgres

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// sideConns bounds the connections beside the one that fetches: for checks
	// and commands, which are rare.
	sideConns = 2

	// sideIdle is how long such a connection is kept without use.
	sideIdle = time.Minute

	// readBuffer is how much is read from a connection at once, if so much has
	// come: pgx alone takes 8 KiB, which is a system call for every twenty rows of
	// a backlog.
	readBuffer = 64 << 10

	// connectLimit is how long a connection may take to open, where the URL does
	// not say (connect_timeout). Whoever takes connections and never answers, as a
	// proxy of a server that is gone, would otherwise be waited for without end,
	// and without a word.
	connectLimit = 10 * time.Second
)

// Open returns a pool of connections to a database for work beside the relay's,
// as the relay itself would open them. It does not connect.
func Open(ctx context.Context, url string, security TLS) (*pgxpool.Pool, error) {
	pc, err := poolConfig(&SourceConfig{URL: url, TLS: security})
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// OpenConfig is [Open] for connections as a pool's configuration describes them,
// such as that of an application.
func OpenConfig(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	pc, err := poolConfig(&SourceConfig{Config: config})
	if err != nil {
		return nil, err
	}
	pc.MinConns, pc.MinIdleConns = 0, 0
	return pgxpool.NewWithConfig(ctx, pc)
}

// newPool returns the pool for everything but reading rows. It does not connect.
func newPool(ctx context.Context, cfg *SourceConfig) (*pgxpool.Pool, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	pc.MaxConns, pc.MinConns, pc.MinIdleConns = sideConns, 0, 0
	pc.MaxConnIdleTime = sideIdle
	// A connection that died while idle, with the server's restart, is no reason
	// for a command to fail.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	if cfg.Config == nil { // what an application configured itself is its own
		pc.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(bufio.NewReaderSize(r, readBuffer), w)
		}
	}
	if cfg.Tracer != nil {
		pc.ConnConfig.Tracer = cfg.Tracer
	}
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "outrider-source"
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// poolConfig returns the configured connection, as a copy, with a limit for
// opening one and our search path.
func poolConfig(cfg *SourceConfig) (*pgxpool.Config, error) {
	pc, err := givenConfig(cfg)
	if err != nil {
		return nil, err
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = connectLimit
	}
	pinConnections(pc)
	return pc, nil
}

// givenConfig returns what the configuration says.
func givenConfig(cfg *SourceConfig) (*pgxpool.Config, error) {
	if cfg.Config != nil && cfg.URL != "" {
		return nil, errors.New("both a URL and a pool configuration are given; give one of them")
	}
	if cfg.Config != nil {
		if cfg.Config.ConnConfig == nil {
			return nil, errors.New("the pool configuration has no ConnConfig; make it with pgxpool.ParseConfig")
		}
		return cfg.Config.Copy(), nil
	}
	if cfg.URL == "" {
		return nil, errors.New("no URL is given; write postgres://user:password@host:port/database")
	}
	pc, err := pgxpool.ParseConfig(ownMode(cfg.URL))
	if err != nil || looksSplit(pc.ConnConfig) {
		// What pgx says may quote parts of the password; it is not repeated.
		return nil, errors.New("the URL cannot be parsed; write postgres://user:password@host:port/database " +
			"and percent-encode special characters of the password")
	}
	return pc, cfg.TLS.secure(&pc.ConnConfig.Config, cfg.URL)
}

// looksSplit tells whether a host contains what belongs to a password: one
// with an unencoded @ in it was cut in two there.
func looksSplit(cfg *pgx.ConnConfig) bool {
	return strings.Contains(cfg.Host, "@") ||
		slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return strings.Contains(f.Host, "@") })
}
