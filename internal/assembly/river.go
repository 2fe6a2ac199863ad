package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/river"
	"github.com/outriderhq/outrider/config"
)

// riverDestination is what can be done with River's queues.
func riverDestination(_ site, d *config.River) DestinationKind {
	return DestinationKind{Deep: true, Open: func() (adapters.Destination, error) { return newRiver(d) }}
}

func newRiver(d *config.River) (adapters.Destination, error) {
	security, err := postgresTLS(d.TLS)
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(context.Background(), d.URL.Reveal(), security)
	if err != nil {
		return nil, err
	}
	cfg := riverConfig(d)
	cfg.Pool = pool
	to, err := river.New(cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return to, nil
}

func riverConfig(d *config.River) river.Config {
	cfg := river.Config{
		Schema: d.Schema.Exact(), Kind: string(d.Job), Queue: string(d.Queue), MaxAttempts: d.MaxAttempts, Priority: d.Priority,
		Tags: d.Tags, ScheduledAt: d.ScheduledAt, Messages: d.Batch.MaxMessages,
		Unique: river.Unique{ByArgs: d.Unique.ByArgs, ByPeriod: d.Unique.ByPeriod.Std(), ByQueue: d.Unique.ByQueue},
	}
	for name, text := range d.Args {
		if cfg.Args == nil {
			cfg.Args = map[string]string{}
		}
		cfg.Args[name] = string(text)
	}
	return cfg
}
