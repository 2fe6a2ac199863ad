package assembly

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/amqp"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// amqpDestination is an exchange of RabbitMQ, or its queues.
func amqpDestination(at site, d *config.AMQP) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		cfg, err := amqpConfig(at, d)
		if err != nil {
			return nil, err
		}
		return amqp.New(cfg)
	}}
}

func amqpConfig(at site, d *config.AMQP) (cfg amqp.Config, err error) {
	cfg = amqp.Config{
		URL: d.URL.Reveal(), Exchange: d.Exchange, RoutingKey: string(d.RoutingKey), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Timeout: d.Timeout.Std(), PerGroup: d.PerGroup, Allowed: allowed(d),
	}
	cfg.TLS, err = newTLS(d.TLS, d.Encrypted())
	return cfg, err
}
