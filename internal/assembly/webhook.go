package assembly

import (
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/webhook"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// webhookDestination has endpoints that take signed requests.
func webhookDestination(_ site, d *config.Webhook) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) { return newWebhook(d) }}
}

func newWebhook(d *config.Webhook) (adapters.Destination, error) {
	cfg, err := webhookConfig(d)
	if err != nil {
		return nil, err
	}
	return webhook.New(cfg)
}

func webhookConfig(d *config.Webhook) (cfg webhook.Config, err error) {
	statuses, accept, err := statusTable(d.Status)
	if err != nil {
		return cfg, err
	}
	cfg = webhook.Config{
		URL: string(d.URL), Secrets: Reveal(d.AllSecrets()), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Headers: revealMap(d.Headers), PassHeaders: lower(d.PassHeaders),
		ConnectTimeout: d.ConnectTimeout.Std(), Timeout: d.Timeout.Std(), MaxRequests: d.MaxRequests,
		Rate: d.Rate.PerSecond(), Burst: d.Burst, AllowPrivate: d.AllowPrivate,
		Capture: int(d.Capture), ShowPayload: d.ShowPayload, Statuses: statuses, Accept: accept,
	}
	if d.Capture == 0 {
		cfg.Capture = -1
	}
	networks, err := parseNetworks(d.AllowNetworks, d.DenyNetworks)
	if err != nil {
		return cfg, err
	}
	cfg.AllowNetworks, cfg.DenyNetworks = networks[0], networks[1]
	security := d.TLS
	if d.CAFile != "" {
		security.CAFile = d.CAFile
	}
	if cfg.TLS, err = newTLS(security, security.On()); err != nil {
		return cfg, err
	}
	return cfg, nil
}

// lower returns the names in lower case; nil for none.
func lower(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}
