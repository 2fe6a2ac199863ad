package outrider

import (
	"context"

	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// buildLeader tells a route that its source has one instance at a time. Routes
// of one source share the lock.
func (b *builder) buildLeader(ctx context.Context, p *parts, name string, out *router.Route) error {
	switch s := b.cfg.Sources[name].(type) {
	case *config.Subscriber:
		if s.Leader {
			out.Leader = name
		}
	case *config.Postgres:
		if !s.Leader {
			return nil
		}
		out.Leader = name
		if s.LeaderLock == 0 {
			return nil
		}
		if p.leaders[name] == nil {
			to, err := b.options.toSource(name, s)
			if err != nil {
				return err
			}
			lock, err := statestore.NewLeaderLock(ctx, statestore.LeaderConfig{URL: to.url, TLS: to.tls, Config: to.config, Key: int64(s.LeaderLock)})
			if err != nil {
				return err
			}
			p.leaders[name] = lock
		}
		out.LeaderLock = p.leaders[name]
	}
	return nil
}
