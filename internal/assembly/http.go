package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/http"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// httpDestination is an endpoint that takes batches.
func httpDestination(_ site, d *config.HTTP) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) { return newHTTP(d) }}
}

func newHTTP(d *config.HTTP) (adapters.Destination, error) {
	cfg, err := httpConfig(d)
	if err != nil {
		return nil, err
	}
	return http.New(cfg)
}

func httpConfig(d *config.HTTP) (cfg http.Config, err error) {
	statuses, accept, err := statusTable(d.Status)
	if err != nil {
		return cfg, err
	}
	networks, err := parseNetworks(d.AllowNetworks, d.DenyNetworks)
	if err != nil {
		return cfg, err
	}
	cfg = http.Config{
		URL: string(d.URL), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Token: d.Token.Reveal(), Headers: revealMap(d.Headers),
		ConnectTimeout: d.ConnectTimeout.Std(), Timeout: d.Timeout.Std(),
		MaxMessages: d.Batch.MaxMessages, MaxBytes: int(d.Batch.MaxBytes), MaxGroups: d.Batch.MaxGroups,
		Whole: d.Batch.Whole, MaxRequests: d.MaxRequests, Statuses: statuses, Accept: accept,
		ShowPayload: d.ShowPayload, PublicOnly: !d.AllowPrivate, AllowNetworks: networks[0], DenyNetworks: networks[1],
	}
	if cfg.TLS, err = newTLS(d.TLS, d.TLS.On()); err != nil {
		return cfg, err
	}
	if d.Preset == config.FlowCatalyst {
		cfg = http.FlowCatalyst(cfg)
	}
	if d.Preset == config.FlowCatalystV2 {
		cfg = http.FlowCatalystV2(cfg)
	}
	return cfg, nil
}

// httpSource is a source that messages are posted to.
func httpSource(at site, s *config.HTTPSource) SourceKind {
	return SourceKind{Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		sub, err := http.NewSubscriber(httpSubscriber(at, s))
		if err != nil {
			return Feed{}, err
		}
		return Feed{subscriber: sub, topic: s.Path, maxRow: int64(s.MaxRow), close: sub.Close}, nil
	}}
}

func httpSubscriber(at site, s *config.HTTPSource) http.SubscriberConfig {
	return http.SubscriberConfig{Listen: s.Listen, Tokens: Reveal(s.Tokens), MaxBody: int64(s.MaxRow), MaxRequests: s.MaxRequests,
		Logger: at.log.With("source", at.name)}
}
