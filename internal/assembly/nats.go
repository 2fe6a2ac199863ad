package assembly

import (
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
