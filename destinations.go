package outrider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/http"
	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/adapters/webhook"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// buildDestination makes a destination and begins to check it; routes to one name
// share it.
func (b *builder) buildDestination(ctx context.Context, p *parts, name string) (adapters.Destination, error) {
	if d := p.destinations[name]; d != nil {
		return d, nil
	}
	d, err := b.newDestination(name)
	if err != nil {
		return nil, err
	}
	p.destinations[name] = d
	if c, ok := d.(adapters.Checker); ok {
		p.checks.start(func() error {
			if err := c.Check(ctx); err != nil {
				// Not an error of ours: what is down comes back, and what is missing
				// is created. Until then its messages wait.
				b.log.Warn("destination is not reachable yet; its messages wait", "destination", name, "error", err)
			}
			return nil
		})
	}
	return d, nil
}

func (b *builder) newDestination(name string) (adapters.Destination, error) {
	switch d := b.cfg.Destinations[name].(type) {
	case *config.Kafka:
		return b.newKafka(name, d)
	case *config.HTTP:
		return newHTTP(d)
	case *config.Webhook:
		return newWebhook(d)
	case *config.LogTo:
		var level slog.Level
		if err := level.UnmarshalText([]byte(d.Level)); err != nil {
			return nil, err
		}
		return log.New(b.log, level), nil
	case *config.Discard:
		return log.Discard(), nil
	case *config.Publisher:
		return b.options.destinations[name](d)
	default:
		return nil, fmt.Errorf("type %q is not built into this program", d.Kind())
	}
}

func (b *builder) newKafka(name string, d *config.Kafka) (adapters.Destination, error) {
	cfg := kafka.Config{
		Brokers: d.Brokers, Topic: string(d.Topic), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Compression: d.Compression, Timeout: d.Timeout.Std(), Logger: b.log.With("destination", name),
		Exclusive: d.Exclusive, TransactionalID: d.TransactionalID, Allowed: d.TopicAllowed(),
	}
	if d.SASL != nil {
		cfg.SASL = &kafka.SASL{Mechanism: strings.ToUpper(d.SASL.Mechanism), Username: d.SASL.Username,
			Password: d.SASL.Password.Reveal()}
	}
	var err error
	if cfg.TLS, err = newTLS(d.TLS, d.Encrypted()); err != nil {
		return nil, err
	}
	if d.Client == "watermill" {
		return kafka.NewStock(cfg)
	}
	return kafka.New(cfg)
}

// statusKinds are the configuration's words for what a status means.
var statusKinds = map[config.StatusAction]outbox.Kind{
	config.StatusSkip:        outbox.KindSkip,
	config.StatusTransient:   outbox.KindTransient,
	config.StatusUnavailable: outbox.KindUnavailable,
	config.StatusGone:        outbox.KindGone,
	config.StatusPermanent:   outbox.KindPermanent,
}

func newHTTP(d *config.HTTP) (adapters.Destination, error) {
	statuses, accept, err := statusTable(d.Status)
	if err != nil {
		return nil, err
	}
	networks, err := parseNetworks(d.AllowNetworks, d.DenyNetworks)
	if err != nil {
		return nil, err
	}
	cfg := http.Config{
		URL: string(d.URL), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Token: d.Token.Reveal(), Headers: revealMap(d.Headers),
		ConnectTimeout: d.ConnectTimeout.Std(), Timeout: d.Timeout.Std(),
		MaxMessages: d.Batch.MaxMessages, MaxBytes: int(d.Batch.MaxBytes), MaxGroups: d.Batch.MaxGroups,
		MaxRequests: d.MaxRequests, Statuses: statuses, Accept: accept,
		PublicOnly: !d.AllowPrivate, AllowNetworks: networks[0], DenyNetworks: networks[1],
	}
	if cfg.TLS, err = newTLS(d.TLS, d.TLS.On()); err != nil {
		return nil, err
	}
	if d.Preset == config.FlowCatalyst {
		cfg = http.FlowCatalyst(cfg)
	}
	return http.New(cfg)
}

func newWebhook(d *config.Webhook) (adapters.Destination, error) {
	statuses, accept, err := statusTable(d.Status)
	if err != nil {
		return nil, err
	}
	cfg := webhook.Config{
		URL: string(d.URL), Secrets: reveal(d.AllSecrets()), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Headers: revealMap(d.Headers), PassHeaders: lower(d.PassHeaders),
		ConnectTimeout: d.ConnectTimeout.Std(), Timeout: d.Timeout.Std(), MaxRequests: d.MaxRequests,
		Rate: d.Rate.PerSecond(), Burst: d.Burst, AllowPrivate: d.AllowPrivate,
		Capture: int(d.Capture), Statuses: statuses, Accept: accept,
	}
	if d.Capture == 0 {
		cfg.Capture = -1
	}
	networks, err := parseNetworks(d.AllowNetworks, d.DenyNetworks)
	if err != nil {
		return nil, err
	}
	cfg.AllowNetworks, cfg.DenyNetworks = networks[0], networks[1]
	security := d.TLS
	if d.CAFile != "" {
		security.CAFile = d.CAFile
	}
	if cfg.TLS, err = newTLS(security, security.On()); err != nil {
		return nil, err
	}
	return webhook.New(cfg)
}

// lower returns the names in lower case; nil for none.
func lower(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}

// parseNetworks reads lists of networks.
func parseNetworks(lists ...[]string) ([][]netip.Prefix, error) {
	out := make([][]netip.Prefix, len(lists))
	for i, list := range lists {
		for _, text := range list {
			network, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("networks: %w", err)
			}
			out[i] = append(out[i], network)
		}
	}
	return out, nil
}

// statusTable turns the configuration's table into the kinds of statuses and
// those that are successes beside 2xx.
func statusTable(table map[config.StatusCode]config.StatusAction) (kinds map[int]outbox.Kind, accept []int, err error) {
	kinds = map[int]outbox.Kind{}
	for status, action := range table {
		if action == config.StatusDelivered {
			accept = append(accept, int(status))
			continue
		}
		kind, ok := statusKinds[action]
		if !ok {
			return nil, nil, errors.New("status " + status.String() + ": " + action.String() + " is not known to this program")
		}
		kinds[int(status)] = kind
	}
	return kinds, accept, nil
}

func revealMap(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = s.Reveal()
	}
	return out
}
