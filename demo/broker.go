package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// broker is a message broker that the demo delivers to, and reads from again.
type broker struct {
	url  *url.URL
	kind string // the value of the key type
	name string // of the topics of this run, before a region's
	subs []io.Closer
}

// kinds are the brokers that the demo knows, by the scheme of their URLs.
var kinds = map[string]string{"kafka": "kafka", "nats": "nats", "tls": "nats", "amqp": "amqp", "amqps": "amqp", "redis": "redis"}

// newBroker returns the broker at a URL.
func newBroker(to string) (*broker, error) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a broker, such as nats://127.0.0.1:4222", to)
	}
	kind, ok := kinds[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("the demo knows no broker whose URL begins with %s://; use kafka://, nats://, amqp:// or redis://", u.Scheme)
	}
	return &broker{url: u, kind: kind, name: fmt.Sprintf("outrider-demo-%d-", time.Now().UnixMilli())}, nil
}

func (b *broker) topic(region string) string { return b.name + region }

// keys are those of the configuration by which the broker is found.
func (b *broker) keys() string {
	switch b.kind {
	case "kafka":
		return fmt.Sprintf("type: kafka, brokers: [%q]", b.url.Host)
	case "redis":
		password, _ := b.url.User.Password()
		return fmt.Sprintf("type: redis, addresses: [%q], username: %q, password: %q", b.url.Host, b.url.User.Username(), password)
	}
	return fmt.Sprintf("type: %s, url: %q", b.kind, b.url)
}

// destination is the destination of a region.
func (b *broker) destination(region string) string {
	topic := map[string]string{"kafka": "topic: %[1]q", "nats": "subject: %[1]q, stream: %[1]q", "amqp": "routing_key: %[1]q", "redis": "stream: %[1]q"}[b.kind]
	return fmt.Sprintf(" {%s, %s}", b.keys(), fmt.Sprintf(topic, b.topic(region)))
}

// source reads a region's topic.
func (b *broker) source(region string) string {
	switch b.kind {
	case "kafka": // by watermill-kafka
		return fmt.Sprintf("{type: subscriber, topic: %q}", b.topic(region))
	case "amqp":
		return fmt.Sprintf("{%s, queue: %q}", b.keys(), b.topic(region))
	}
	return fmt.Sprintf("{%s, stream: %q}", b.keys(), b.topic(region))
}

// create creates the topics of the regions, with the configuration that delivers to them.
func (b *broker) create(ctx context.Context, cfg *outrider.Config, log *slog.Logger) (err error) {
	if b.kind == "redis" { // which creates a stream with its first entry
		return nil
	}
	op, err := operate.NewOperator(ctx, cfg, outrider.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Close()) }()
	for _, g := range regions {
		if _, err := op.CreateTopic(ctx, g.name, adapters.NewTopic{Name: b.topic(g.name)}, "demo"); err != nil {
			return err
		}
	}
	return nil
}

// reader returns a relay that reads the topics and enters their orders into the ledger.
func (b *broker) reader(ctx context.Context, state string, to *ledger, log *slog.Logger) (*outrider.Outrider, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "admin: {listen: off}\nstate: {url: %q}\nsources:\n", state)
	for _, g := range regions {
		fmt.Fprintf(&text, "  %s: %s\n", g.name, b.source(g.name))
	}
	text.WriteString("destinations:\n")
	for _, g := range regions {
		fmt.Fprintf(&text, "  %s: {type: publisher, topic: orders}\n", g.name)
	}
	text.WriteString("routes:\n")
	options := []outrider.Option{outrider.WithLogger(log), outrider.WithInstance("reader")}
	for _, g := range regions {
		fmt.Fprintf(&text, "  %[1]s: {from: %[1]s, to: %[1]s}\n", g.name)
		options = append(options, outrider.WithDestination(g.name, arrivals{g.name, to}))
		if b.kind != "kafka" {
			continue
		}
		sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: []string{b.url.Host}, Unmarshaler: kafka.DefaultMarshaler{},
			ConsumerGroup: b.topic(g.name), OverwriteSaramaConfig: fromTheBeginning()}, watermill.NopLogger{})
		if err != nil {
			return nil, err
		}
		b.subs = append(b.subs, sub)
		options = append(options, outrider.WithSource(g.name, sub))
	}
	cfg, err := outrider.ParseConfig("reader.yaml", []byte(text.String()))
	if err != nil {
		return nil, err
	}
	if _, err := operate.Init(ctx, cfg, outrider.WithLogger(log)); err != nil {
		return nil, err
	}
	return outrider.New(cfg, options...)
}

// fromTheBeginning has a new consumer group begin with the first record.
func fromTheBeginning() *sarama.Config {
	c := kafka.DefaultSaramaSubscriberConfig()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

// close ends the subscriptions.
func (b *broker) close() error {
	var errs []error
	for _, s := range b.subs {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// arrivals enters what arrives from a region's topic into the ledger.
type arrivals struct {
	region string
	ledger *ledger
}

// Publish implements message.Publisher.
func (a arrivals) Publish(_ string, msgs ...*message.Message) error {
	orders := make([]order, len(msgs))
	for i, msg := range msgs {
		if err := json.Unmarshal(msg.Payload, &orders[i]); err != nil {
			return err
		}
	}
	a.ledger.receive(a.region, orders)
	return nil
}

// Close implements message.Publisher.
func (arrivals) Close() error { return nil }
