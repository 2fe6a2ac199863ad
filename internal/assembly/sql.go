package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
	"github.com/outriderhq/outrider/config"
)

// sqlDestination is what can be done with another outbox table.
func sqlDestination(_ site, d *config.SQL) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) { return newSQL(d) }}
}

func newSQL(d *config.SQL) (adapters.Destination, error) {
	security, err := postgresTLS(d.TLS)
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(context.Background(), d.URL.Reveal(), security)
	if err != nil {
		return nil, err
	}
	cfg := sqlConfig(d)
	cfg.Pool = pool
	to, err := outboxtable.New(cfg)
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
