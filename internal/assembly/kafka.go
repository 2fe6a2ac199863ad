package assembly

import (
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox/format"
)

// kafkaDestination is a topic of Kafka, or several.
func kafkaDestination(at site, d *config.Kafka) DestinationKind {
	k := DestinationKind{Open: func() (adapters.Destination, error) { return newKafka(at, d) }}
	if d.Client == "watermill" { // watermill-kafka can only publish; brokers and topics are the same
		own := *d
		own.Client = ""
		k.Examine = func() (adapters.Destination, error) { return newKafka(at, &own) }
	}
	return k
}

func newKafka(at site, d *config.Kafka) (adapters.Destination, error) {
	cfg, err := kafkaConfig(at, d)
	switch {
	case err != nil:
		return nil, err
	case d.Client == "watermill":
		return kafka.NewWatermillKafka(cfg)
	}
	return kafka.New(cfg)
}

func kafkaConfig(at site, d *config.Kafka) (cfg kafka.Config, err error) {
	cfg = kafka.Config{
		Brokers: d.Brokers, Topic: string(d.Topic), Format: format.Format(d.Format), CloudEventsSource: d.Source,
		Compression: d.Compression, Timeout: d.Timeout.Std(), Logger: at.log.With("destination", at.name),
		Exclusive: d.Exclusive, TransactionalID: d.TransactionalID, Allowed: allowed(d),
	}
	if d.SASL != nil {
		cfg.SASL = &kafka.SASL{Mechanism: strings.ToUpper(d.SASL.Mechanism), Username: d.SASL.Username,
			Password: d.SASL.Password.Reveal()}
	}
	cfg.TLS, err = newTLS(d.TLS, d.Encrypted())
	return cfg, err
}
