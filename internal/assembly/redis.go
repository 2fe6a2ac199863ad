package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/redis"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// redisDestination is a stream of Redis, or several.
func redisDestination(at site, d *config.Redis) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		cfg, err := redisConfig(at, d)
		if err != nil {
			return nil, err
		}
		return redis.New(cfg)
	}}
}

func redisConfig(at site, d *config.Redis) (cfg redis.Config, err error) {
	cfg = redis.Config{
		Stream: string(d.Stream), Allowed: allowed(d), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		MaxLen: int64(d.MaxLen), Repeats: !d.Dedupe, Logger: at.log.With("destination", at.name),
	}
	if d.Wait != nil {
		cfg.Replicas, cfg.ReplicaTimeout = d.Wait.Replicas, d.Wait.Timeout.Std()
	}
	cfg.Servers, err = redisServers(&d.RedisServers)
	return cfg, err
}

// redisServers are the servers of a destination or a source.
func redisServers(r *config.RedisServers) (s redis.Servers, err error) {
	s = redis.Servers{Addresses: r.Addresses, Cluster: r.Cluster, Username: r.Username, Password: r.Password.Reveal(), DB: r.Database, Timeout: r.Timeout.Std()}
	if r.Sentinel != nil {
		s.Sentinel = redis.Sentinel{Master: r.Sentinel.Master, Username: r.Sentinel.Username, Password: r.Sentinel.Password.Reveal()}
	}
	s.TLS, err = newTLS(r.TLS, r.Encrypted())
	return s, err
}

// redisSource is a stream that is read in a consumer group.
func redisSource(at site, s *config.RedisSource) SourceKind {
	return SourceKind{Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		servers, err := redisServers(&s.RedisServers)
		if err != nil {
			return Feed{}, err
		}
		sub, err := redis.NewSubscriber(redis.SubscriberConfig{Servers: servers, Group: s.Group, Fresh: s.Start == "newest", Logger: at.log.With("source", at.name)})
		if err != nil {
			return Feed{}, err
		}
		return Feed{subscriber: sub, topic: s.Stream, maxRow: int64(s.MaxRow), examine: sub.Check, close: sub.Close}, nil
	}}
}
