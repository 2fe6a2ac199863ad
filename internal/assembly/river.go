package assembly

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/river"
	"github.com/outriderhq/outrider/config"
)

// riverDestination is a queue of River, or several.
func riverDestination(_ site, d *config.River) DestinationKind {
	return DestinationKind{Deep: true, Open: func() (adapters.Destination, error) { return newRiver(d) }}
}

func newRiver(d *config.River) (adapters.Destination, error) {
	return openInPostgres(d.URL, d.TLS, func(pool *pgxpool.Pool) (adapters.Destination, error) {
		cfg := riverConfig(d)
		cfg.Pool = pool
		return river.New(cfg)
	})
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
