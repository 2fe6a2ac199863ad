package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/amqp"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// amqpDestination is an exchange of RabbitMQ, or its queues.
func amqpDestination(_ site, d *config.AMQP) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		cfg, err := amqpConfig(d)
		if err != nil {
			return nil, err
		}
		return amqp.New(cfg)
	}}
}

func amqpConfig(d *config.AMQP) (cfg amqp.Config, err error) {
	cfg = amqp.Config{
		URL: d.URL.Reveal(), Exchange: d.Exchange, RoutingKey: string(d.RoutingKey), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Timeout: d.Timeout.Std(), PerGroup: d.PerGroup, Allowed: allowed(d),
	}
	cfg.TLS, err = newTLS(d.TLS, d.Encrypted())
	return cfg, err
}

// amqpSource is a queue of RabbitMQ.
func amqpSource(at site, s *config.AMQPSource) SourceKind {
	return SourceKind{Leader: s.Leader, Open: func(context.Context) (Feed, error) {
		certificates, err := newTLS(s.TLS, s.Encrypted())
		if err != nil {
			return Feed{}, err
		}
		sub := amqp.NewSubscriber(s.URL.Reveal(), certificates, at.log.With("source", at.name))
		return Feed{subscriber: sub, topic: s.Queue, maxRow: int64(s.MaxRow), close: sub.Close,
			examine: func(ctx context.Context) error { return sub.Check(ctx, s.Queue) }}, nil
	}}
}
