package assembly

import (
	"context"
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
		Exclusive: d.Exclusive, Once: d.ExactlyOnce, TransactionalID: d.TransactionalID, Allowed: allowed(d),
	}
	cfg.SASL = kafkaLogin(d.SASL)
	cfg.TLS, err = newTLS(d.TLS, d.Encrypted())
	return cfg, err
}

func kafkaLogin(s *config.SASL) *kafka.SASL {
	if s == nil {
		return nil
	}
	return &kafka.SASL{Mechanism: strings.ToUpper(s.Mechanism), Username: s.Username, Password: s.Password.Reveal()}
}

// kafkaSource is a topic that is read by a consumer group.
func kafkaSource(at site, s *config.KafkaSource) SourceKind {
	return SourceKind{Log: true, Open: func(ctx context.Context) (Feed, error) {
		cfg := kafka.SourceConfig{
			Brokers: s.Brokers, SASL: kafkaLogin(s.SASL), Topic: s.Topic, Group: s.Group, Session: s.Session.Std(), Rebalance: s.Rebalance.Std(),
			Decoding: kafka.Decoding{Format: format.Format(s.Format), IDHeader: s.IDHeader, IDField: s.IDField, TypeHeader: s.TypeHeader, GroupHeader: s.GroupBy,
				SkipTombstones: s.Tombstones == "skip", MaxRow: int64(s.MaxRow)},
			Logger: at.log.With("source", at.name),
		}
		var err error
		if cfg.TLS, err = newTLS(s.TLS, s.Encrypted()); err != nil {
			return Feed{}, err
		}
		src, err := kafka.NewSource(ctx, cfg)
		if err != nil {
			return Feed{}, err
		}
		return Feed{Source: src, poll: s.Poll}, nil
	}}
}
