package assembly

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/config"
)

// connection is how connections to a PostgreSQL database are made: by URL, or as
// those of a pool.
type connection struct {
	url    string
	tls    postgres.TLS
	config *pgxpool.Config // not nil: url is empty
}

// toSource is how connections to a source's database are made.
func (o *Options) toSource(name string, s *config.Postgres) (connection, error) {
	if pool := o.Pools[name]; pool != nil {
		return connection{config: pool}, nil
	}
	security, err := postgresTLS(s.TLS)
	return connection{url: s.URL.Reveal(), tls: security}, err
}

// toState is how connections to the state store at a location are made.
func (o *Options) toState(cfg *config.Config, location string) (connection, error) {
	if !cfg.State.URL.IsZero() && o.StatePool != nil {
		return connection{config: o.StatePool}, nil
	}
	for _, name := range SortedNames(o.Pools) {
		if s, ok := cfg.Sources[name].(*config.Postgres); ok && s.URL.Reveal() == location {
			return connection{config: o.Pools[name]}, nil
		}
	}
	security, err := postgresTLS(cfg.StateTLS(location))
	return connection{url: location, tls: security}, err
}

// openPostgres opens a pool of connections to a source's database for work of an operator.
func (o *Options) openPostgres(ctx context.Context, name string, s *config.Postgres) (*pgxpool.Pool, error) {
	to, err := o.toSource(name, s)
	if err != nil {
		return nil, err
	}
	if to.config != nil {
		return postgres.OpenConfig(ctx, to.config)
	}
	return postgres.Open(ctx, to.url, to.tls)
}

// sameDatabase reports whether two connections lead to one database, going by what they name.
func sameDatabase(a, b connection) (bool, error) {
	var named [2]string
	for i, c := range []connection{a, b} {
		if c.config != nil {
			named[i] = adapters.DatabaseName(c.config.ConnConfig.Host, c.config.ConnConfig.Port, c.config.ConnConfig.Database)
			continue
		}
		parsed, err := pgconn.ParseConfig(c.url)
		if err != nil {
			return false, err
		}
		named[i] = adapters.DatabaseName(parsed.Host, parsed.Port, parsed.Database)
	}
	return named[0] == named[1], nil
}

// ConnectionsOf returns the part of a pool's configuration that is about connections.
func ConnectionsOf(pool *pgxpool.Pool) *pgxpool.Config {
	c := pool.Config()
	// They are made for the application's queries: one that resets the session would
	// reset the search_path, and one that requires a tenant in the context refuses.
	c.PrepareConn, c.AfterRelease, c.ShouldPing = nil, nil, nil
	c.BeforeAcquire = nil //nolint:staticcheck // deprecated, and still called where it is set
	return c
}

// postgresTLS is the encryption of connections to a source's or a state store's database;
// if the section is empty, the URL decides.
func postgresTLS(t config.TLS) (postgres.TLS, error) {
	c, err := newTLS(t, t.On())
	return postgres.TLS{Config: c, Off: t.Off()}, err
}

// postgresDatabase is PostgreSQL.
var postgresDatabase = database{
	schemes: []string{"postgres://", "postgresql://"}, state: postgresState,
	lost: postgres.ConnectionLost, problem: postgres.ConnectionProblem, fix: postgres.ConnectionFix,
}

func postgresState(b *Builder, location string) StateKind {
	schema := b.Config.State.Schema.Exact()
	k := serverState(location, func(ctx context.Context) (adapters.OperatorStore, error) {
		to, err := b.Options.toState(b.Config, location)
		if err != nil {
			return nil, err
		}
		return statestore.New(ctx, statestore.Config{URL: to.url, TLS: to.tls, Config: to.config, Schema: schema, Logger: b.log})
	}, func() (string, error) { return statestore.InitSQL(schema) }, func(to Grantees) string { return statestore.Grants(schema).SQL(to) })
	k.Pools = true
	return k
}

// Grantees are the database roles that printed statements grant to.
type Grantees = postgres.Grantees
