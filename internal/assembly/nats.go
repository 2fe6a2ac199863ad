package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/nats"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// natsDestination is a subject of JetStream, or several.
func natsDestination(at site, d *config.NATS) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		cfg, err := natsConfig(at, d)
		if err != nil {
			return nil, err
		}
		return nats.New(cfg)
	}}
}

func natsConfig(at site, d *config.NATS) (cfg nats.Config, err error) {
	cfg = nats.Config{
		Subject: string(d.Subject), Allowed: allowed(d), Stream: d.Stream, Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Timeout: d.Timeout.Std(), Monitoring: d.Monitoring,
	}
	cfg.Connection, err = natsConnection(&d.NATSServers)
	cfg.Logger = at.log.With("destination", at.name)
	return cfg, err
}

func natsConnection(s *config.NATSServers) (c nats.Connection, err error) {
	c = nats.Connection{Servers: s.Servers(), CredentialsFile: string(s.CredentialsFile), NKeyFile: string(s.NKeyFile)}
	c.User, c.Password, c.Token = s.Login()
	c.TLS, err = newTLS(s.TLS, s.Encrypted())
	return c, err
}

// natsSource is a stream that is read by a consumer.
func natsSource(at site, s *config.NATSSource) SourceKind {
	return SourceKind{Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		cfg, err := natsSubscriber(at, s)
		if err != nil {
			return Feed{}, err
		}
		sub, err := nats.NewSubscriber(cfg)
		if err != nil {
			return Feed{}, err
		}
		examine := func(ctx context.Context) error { return sub.Check(ctx, s.Stream) }
		return Feed{subscriber: sub, topic: s.Stream, maxRow: int64(s.MaxRow), examine: examine, close: sub.Close}, nil
	}}
}

func natsSubscriber(at site, s *config.NATSSource) (cfg nats.SubscriberConfig, err error) {
	cfg = nats.SubscriberConfig{Consumer: s.Consumer, Subject: s.Subject, AckWait: s.AckWait.Std(), Workers: s.Workers}
	cfg.Connection, err = natsConnection(&s.NATSServers)
	cfg.Logger = at.log.With("source", at.name)
	return cfg, err
}
