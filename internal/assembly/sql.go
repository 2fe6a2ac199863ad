package assembly

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
	"github.com/outriderhq/outrider/config"
)

// sqlDestination is another outbox table.
func sqlDestination(_ site, d *config.SQL) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) { return newSQL(d) }}
}

func newSQL(d *config.SQL) (adapters.Destination, error) {
	return openInPostgres(d.URL, d.TLS, func(pool *pgxpool.Pool) (adapters.Destination, error) {
		cfg := sqlConfig(d)
		cfg.Pool = pool
		return outboxtable.New(cfg)
	})
}

// openInPostgres opens a destination with connections of its own, which it closes.
func openInPostgres(url config.SecretURL, tls config.TLS, open func(*pgxpool.Pool) (adapters.Destination, error)) (adapters.Destination, error) {
	security, err := postgresTLS(tls)
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(context.Background(), url.Reveal(), security)
	if err != nil {
		return nil, err
	}
	to, err := open(pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return to, nil
}

func sqlConfig(d *config.SQL) outboxtable.Config {
	cfg := outboxtable.Config{Layout: d.Layout, Table: string(d.Table), Topic: d.Topic, Notify: d.Notify, Messages: d.Batch.MaxMessages}
	for _, t := range []struct {
		to       *string
		template config.Template
		own      string // what the message has, which takes no template
	}{{&cfg.ID, d.EventID, "{{.ID}}"}, {&cfg.Type, d.Type, "{{.Type}}"}, {&cfg.Group, d.Group, "{{.Group}}"}} {
		if string(t.template) != t.own {
			*t.to = string(t.template)
		}
	}
	if preset := d.Preset(); preset != nil && preset.Queue != nil && len(preset.Queue.Tables) > 1 {
		cfg.Tables = map[string]string{}
		for _, t := range preset.Queue.Tables {
			cfg.Tables[t.Key] = d.Tables.Of(t)
		}
	}
	return cfg
}
