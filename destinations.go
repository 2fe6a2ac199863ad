package outrider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/outriderhq/outrider/adapters/http"
	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// buildDestination makes and checks a destination; routes to one name share it.
func (o *Outrider) buildDestination(ctx context.Context, p *parts, name string) (outbox.Destination, error) {
	if d := p.destinations[name]; d != nil {
		return d, nil
	}
	d, err := o.newDestination(name)
	if err != nil {
		return nil, err
	}
	p.destinations[name] = d
	if c, ok := d.(outbox.Checker); ok {
		if err := c.Check(ctx); err != nil {
			// Not an error of ours: what is down comes back, and what is missing
			// is created. Until then its messages wait.
			o.log.Warn("destination is not reachable yet; its messages wait", "destination", name, "error", err)
		}
	}
	return d, nil
}

func (o *Outrider) newDestination(name string) (outbox.Destination, error) {
	switch d := o.cfg.Destinations[name].(type) {
	case *config.Kafka:
		return o.newKafka(d)
	case *config.HTTP:
		return newHTTP(d)
	case *config.LogTo:
		var level slog.Level
		if err := level.UnmarshalText([]byte(d.Level)); err != nil {
			return nil, err
		}
		return log.New(o.log, level), nil
	case *config.Discard:
		return log.Discard(), nil
	case *config.Publisher:
		return o.options.destinations[name](d)
	default:
		return nil, fmt.Errorf("type %q is not built into this program", d.Kind())
	}
}

func (o *Outrider) newKafka(d *config.Kafka) (outbox.Destination, error) {
	cfg := kafka.Config{
		Brokers: d.Brokers, Topic: string(d.Topic), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Compression: d.Compression, Timeout: d.Timeout.Std(), Logger: o.log,
	}
	if d.SASL != nil {
		cfg.SASL = &kafka.SASL{Mechanism: strings.ToUpper(d.SASL.Mechanism), Username: d.SASL.Username,
			Password: d.SASL.Password.Reveal()}
	}
	if d.TLS.Enabled {
		t, err := newTLS(d.TLS)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		cfg.TLS = t
	}
	if d.Client == "watermill" {
		return kafka.NewStock(cfg)
	}
	return kafka.New(cfg)
}

func newTLS(t config.TLS) (*tls.Config, error) {
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // the user's explicit choice, documented as for tests
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}

// statusKinds are the configuration's words for what a status means.
var statusKinds = map[config.StatusAction]outbox.Kind{
	config.StatusSkip:        outbox.KindSkip,
	config.StatusTransient:   outbox.KindTransient,
	config.StatusUnavailable: outbox.KindUnavailable,
	config.StatusGone:        outbox.KindGone,
	config.StatusPermanent:   outbox.KindPermanent,
}

func newHTTP(d *config.HTTP) (outbox.Destination, error) {
	cfg := http.Config{
		URL: string(d.URL), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Token: d.Token.Reveal(), Headers: map[string]string{},
		ConnectTimeout: d.ConnectTimeout.Std(), Timeout: d.Timeout.Std(),
		MaxMessages: d.Batch.MaxMessages, MaxBytes: int(d.Batch.MaxBytes), MaxGroups: d.Batch.MaxGroups,
		MaxRequests: d.MaxRequests, Statuses: map[int]outbox.Kind{},
	}
	for name, value := range d.Headers {
		cfg.Headers[name] = value.Reveal()
	}
	for status, action := range d.Status {
		if action == config.StatusDelivered {
			cfg.Accept = append(cfg.Accept, int(status))
			continue
		}
		kind, ok := statusKinds[action]
		if !ok {
			return nil, errors.New("status " + status.String() + ": " + action.String() + " is not known to this program")
		}
		cfg.Statuses[int(status)] = kind
	}
	return http.New(cfg)
}
