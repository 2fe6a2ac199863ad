package outrider

import (
	"context"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/config"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router"
)

// openQueue gives a route the queue of its source. Routes of one source share it;
// fresh tells that this is the first one.
func (b *builder) openQueue(ctx context.Context, p *parts, name string, s *config.Postgres, out *router.Route) (fresh bool, err error) {
	fresh = p.queues[name] == nil
	if fresh {
		cfg := queueConfig(s)
		to, err := b.options.toSource(name, s)
		if err != nil {
			return false, err
		}
		cfg.URL, cfg.TLS, cfg.Config = to.url, to.tls, to.config
		cfg.Wake, cfg.Logger = postgres.Wake(s.Wake), b.log
		queue, err := queuetable.New(ctx, cfg)
		if err != nil {
			return false, err
		}
		if p.queues == nil { // parts that were made for one source
			p.queues = map[string]adapters.Queue{}
		}
		p.queues[name] = queue
	}
	out.Queue = p.queues[name]
	out.Poll = router.Poll{Batch: s.Poll.Batch, Min: s.Poll.Min.Std(), After: s.Poll.After, Factor: s.Poll.Factor, Max: s.Poll.Max.Std()}
	out.Claims = router.Claims{InMemory: s.Claims.InMemory, PerGroup: s.Claims.PerGroup,
		Timeout: s.Claims.Timeout.Std(), Recover: s.Claims.Recover.Std()}
	return fresh, nil
}

// queueConfig describes the tables of a queue, without how to connect to them.
func queueConfig(s *config.Postgres) queuetable.Config {
	cfg := queuetable.Config{Batch: s.Poll.Batch, Timeout: s.Claims.Timeout.Std(), MaxRow: int64(s.MaxRow)}
	if s.Layout == "flowcatalyst" {
		cfg.Layout, cfg.Tables = queuetable.FlowCatalystLayout(), queuetable.FlowCatalystTables()
		cfg.Tables[0].Name, cfg.Tables[1].Name = string(s.Tables.Events), string(s.Tables.DispatchJobs)
		return cfg
	}
	q := s.Queue
	cfg.Tables = []queuetable.Table{{Name: string(s.Table)}}
	cfg.Layout = queuetable.Layout{
		Columns: queuetable.Columns{
			Key: q.Key, Type: q.Type, Payload: q.Payload, Status: q.Status, Created: q.Created, Claimed: q.Claimed,
			Group: q.Group, Attempts: q.Attempts, NextAttempt: q.NextAttempt, Done: q.Done, Error: q.Error,
			AggregateType: q.AggregateType, AggregateID: q.AggregateID, Tenant: q.Tenant, Headers: q.Headers,
		},
		Statuses:     queuetable.Statuses(q.Statuses),
		DefaultGroup: q.DefaultGroup, TypeInPayload: q.TypeInPayload,
	}
	return cfg
}
