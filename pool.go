package outrider

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/config"
)

// WithPool has connections to the database of a PostgreSQL source made as those of a
// pool that the program has: to the address of its configuration, with its TLS,
// credentials, dial function, run-time parameters and tracer, and with its hooks
// BeforeConnect (for tokens instead of passwords), AfterConnect and BeforeClose. This
// is so for the source, its state unless `state` names another database, its listener
// and its leader lock. Nothing is connected by the source's url any more; it only
// names the database, and may be without a password.
//
// Outrider makes pools of its own from that configuration, because its connections
// have another search_path and longer lives than an application's. The given pool is
// neither used nor closed. Its sizes, lifetimes and the hooks of each acquisition
// (PrepareConn, BeforeAcquire, AfterRelease) have no effect. It must lead to a primary,
// and not through a pooler in transaction mode.
func WithPool(source string, pool *pgxpool.Pool) Option {
	return func(o *options) {
		o.require(fmt.Sprintf("WithPool(%q)", source), pool)
		if pool != nil {
			o.pools[source] = connectionsOf(pool)
		}
	}
}

// WithStatePool is [WithPool] for the database of `state: {url: ...}`.
func WithStatePool(pool *pgxpool.Pool) Option {
	return func(o *options) {
		o.require("WithStatePool", pool)
		if pool != nil {
			o.statePool = connectionsOf(pool)
		}
	}
}

// connectionsOf is what a pool's configuration says about connections.
func connectionsOf(pool *pgxpool.Pool) *pgxpool.Config {
	c := pool.Config()
	// They are made for the application's queries: one that resets the session would
	// take our search_path away, one that wants a tenant in the context refuses us.
	c.PrepareConn, c.AfterRelease, c.ShouldPing = nil, nil, nil
	c.BeforeAcquire = nil //nolint:staticcheck // deprecated, and still called where it is set
	return c
}

// checkPools compares the pools with the configuration.
func (o *options) checkPools(cfg *Config) (errs []error) {
	for _, name := range sortedNames(o.pools) {
		if s, ok := cfg.Sources[name].(*config.Postgres); !ok || s == nil {
			errs = append(errs, fmt.Errorf("WithPool(%q): the configuration has no source of this name with type: postgres", name))
		}
	}
	if o.statePool != nil && !inPostgres(cfg.State.URL.Reveal()) {
		errs = append(errs, fmt.Errorf("WithStatePool: the configuration names no PostgreSQL database in `state: {url: ...}`; "+
			"state beside a source takes the pool of that source"))
	}
	return errs
}

// connection is how connections to a PostgreSQL database are made: by URL, or as
// those of a pool.
type connection struct {
	url    string
	tls    postgres.TLS
	config *pgxpool.Config // not nil: url is empty
}

// toSource is how connections to a source's database are made.
func (o *options) toSource(name string, s *config.Postgres) (connection, error) {
	if pool := o.pools[name]; pool != nil {
		return connection{config: pool}, nil
	}
	security, err := postgresTLS(s.TLS)
	return connection{url: s.URL.Reveal(), tls: security}, err
}

// toState is how connections to the state store at a location are made.
func (o *options) toState(cfg *Config, location string) (connection, error) {
	if !cfg.State.URL.IsZero() && o.statePool != nil {
		return connection{config: o.statePool}, nil
	}
	for _, name := range sortedNames(o.pools) {
		if s, ok := cfg.Sources[name].(*config.Postgres); ok && s.URL.Reveal() == location {
			return connection{config: o.pools[name]}, nil
		}
	}
	security, err := stateTLS(cfg, location)
	return connection{url: location, tls: security}, err
}

// openPostgres opens a pool of connections to a source's database for work beside
// the relay's.
func (o *options) openPostgres(ctx context.Context, name string, s *config.Postgres) (*pgxpool.Pool, error) {
	to, err := o.toSource(name, s)
	if err != nil {
		return nil, err
	}
	if to.config != nil {
		return postgres.OpenConfig(ctx, to.config)
	}
	return postgres.Open(ctx, to.url, to.tls)
}
