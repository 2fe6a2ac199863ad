package kafka

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// wireMessages cover what the wire format has to say.
func wireMessages() []*message.Message {
	full := adapters.NewMessage(&adapters.Row{
		ID: "01J-full", Type: "order.created", Group: "order-1", AggregateType: "order", AggregateID: "1",
		Tenant: "acme", Tags: map[string]string{"k": "v"}, Headers: map[string]string{"traceparent": "00-1", "empty": ""},
		Payload: []byte("{ \"n\": 1.0 }"), Position: 9, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}, "orders/07")
	binary := adapters.NewMessage(&adapters.Row{ID: "01J-bin", Type: "t", Payload: []byte{0, 0xff}, Binary: true}, "orders/00")
	return []*message.Message{full, binary, message.NewMessage("bare", []byte("x"))}
}

// subscribe reads n messages with watermill-kafka's subscriber, by UUID.
func subscribe(t *testing.T, b *cluster, topic string, n int) map[string]*message.Message {
	t.Helper()
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: b.addrs, OverwriteSaramaConfig: settings}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*message.Message{}
	for len(got) < n {
		msg, ok := <-messages
		if !ok {
			t.Fatalf("watermill-kafka's subscriber read %d of %d messages", len(got), n)
		}
		got[msg.UUID] = msg
		msg.Ack()
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	return got
}

func TestWatermillKafkasSubscriberReadsOurs(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, Format: format.Watermill})
	msgs := wireMessages()
	if errs := d.Deliver(t.Context(), topic, msgs); errs != nil {
		t.Fatal(errs)
	}
	got := subscribe(t, b, topic, len(msgs))
	for _, want := range msgs {
		if msg := got[want.UUID]; msg == nil || !msg.Equals(want) {
			t.Errorf("watermill-kafka's subscriber reads %+v, want %+v", msg, want)
		}
	}
}

func TestRecordsAreThoseOfWatermillKafka(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	ours, theirs := b.topic(t, 1, nil), newName(t)+"-theirs"
	b.create(t, theirs, 1, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: ours, Format: format.Watermill})
	msgs := wireMessages()
	if errs := d.Deliver(t.Context(), ours, msgs); errs != nil {
		t.Fatal(errs)
	}
	s := watermillKafka(t, b, "{{.Type}}")
	for _, msg := range msgs {
		if errs := s.Deliver(t.Context(), theirs, []*message.Message{msg}); errs != nil {
			t.Fatal(errs)
		}
	}
	got, want := b.records(t, ours), b.records(t, theirs)
	if len(got) != len(want) {
		t.Fatalf("%d records, watermill-kafka's publisher writes %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if !bytes.Equal(g.Key, w.Key) || (g.Key == nil) != (w.Key == nil) || !slices.Equal(g.Value, w.Value) ||
			!maps.Equal(headerMap(g), headerMap(w)) || len(g.Headers) != len(w.Headers) {
			t.Errorf("record %d\n is %q %q %v\nwatermill-kafka's publisher writes %q %q %v",
				i, g.Key, g.Value, headerMap(g), w.Key, w.Value, headerMap(w))
		}
	}
	for _, want := range msgs {
		if msg := subscribe(t, b, theirs, len(msgs))[want.UUID]; msg == nil || !msg.Equals(want) {
			t.Errorf("watermill-kafka's subscriber reads %+v, want %+v", msg, want)
		}
	}
}

func headerMap(r *kgo.Record) map[string]string {
	m := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func watermillKafka(t *testing.T, b *cluster, topic string) adapters.Destination {
	t.Helper()
	d, err := NewWatermillKafka(Config{Brokers: b.addrs, Topic: topic, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestWatermillKafkaConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness {
		h := harness(t, format.Watermill)
		b := connect(t, testenv.Kafka(t))
		h.Destination = watermillKafka(t, b, "{{.Type}}")
		h.Hang, h.Break = nil, nil // sarama takes no dialer from watermill-kafka
		return h
	})
}

func TestWatermillKafkaErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"writes watermill only": {Brokers: []string{"a:1"}, Topic: "t", Format: format.Raw},
		"supports PLAIN only":   {Brokers: []string{"a:1"}, Topic: "t", SASL: &SASL{"SCRAM-SHA-256", "u", "p"}},
		"brokers: none given":   {Topic: "t"},
		`"rar" is unknown`:      {Brokers: []string{"a:1"}, Topic: "t", Compression: "rar"},
	} {
		_, err := NewWatermillKafka(cfg)
		wantError(t, err, want)
	}
	for err, want := range map[error]outbox.Kind{
		sarama.ErrUnknownTopicOrPartition:                        outbox.KindUnavailable,
		sarama.ErrNotLeaderForPartition:                          outbox.KindUnavailable,
		sarama.ErrTopicAuthorizationFailed:                       outbox.KindUnavailable,
		sarama.ErrOutOfBrokers:                                   outbox.KindUnavailable,
		sarama.ErrMessageSizeTooLarge:                            outbox.KindPermanent,
		sarama.ErrInvalidRecord:                                  outbox.KindPermanent,
		sarama.ErrInvalidMessage:                                 outbox.KindTransient,
		sarama.ConfigurationError("message larger than allowed"): outbox.KindPermanent,
	} {
		if got := classifySarama("t", err); outbox.KindOf(got) != want {
			t.Errorf("%v becomes %v (%v), want %v", err, got, outbox.KindOf(got), want)
		}
	}
	down, err := NewWatermillKafka(Config{Brokers: []string{testenv.Refused(t)}, Topic: "t", Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = down.Close() })
	errs := down.Deliver(t.Context(), "t", []*message.Message{newMessage("1", "g", 1)})
	if errs == nil || outbox.KindOf(errs[0]) != outbox.KindUnavailable {
		t.Errorf("a broker that is down: %v, want unavailable", errs)
	}
}

func TestRecordsOfFormatDebezium(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, Format: format.Debezium, CloudEventsSource: "shop"})
	occurred := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	ancient := occurred.AddDate(-100, 0, 0)
	before := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	var msgs []*message.Message
	for _, row := range []adapters.Row{
		{ID: "1", Type: "t", Group: "order-1", Payload: []byte{}, OccurredAt: occurred, Headers: map[string]string{"empty": ""}},
		{ID: "2", Type: "t", Group: "order-1", OccurredAt: ancient},
	} {
		msgs = append(msgs, adapters.NewMessage(&row, "orders/00"))
	}
	if errs := d.Deliver(t.Context(), topic, msgs); errs != nil {
		t.Fatal(errs)
	}
	got := b.records(t, topic)
	if len(got) != len(msgs) {
		t.Fatalf("%d records, want %d", len(got), len(msgs))
	}
	empty, none := got[0], got[1]
	last := empty.Headers[len(empty.Headers)-1]
	if string(empty.Key) != "order-1" || empty.Value == nil || !empty.Timestamp.Equal(occurred) || last.Key != "empty" || last.Value == nil {
		t.Errorf("record %q %v at %v, headers %q: want an empty value and header, at %v", empty.Key, empty.Value, empty.Timestamp, empty.Headers, occurred)
	}
	if none.Value != nil || none.Timestamp.Before(before) {
		t.Errorf("record %v at %v: want no value, and a time that a broker takes", none.Value, none.Timestamp)
	}
	if h := headerMap(none); h["id"] != "2" || h["__debezium.context.connectorLogicalName"] != "shop" || len(h) != 4 {
		t.Errorf("headers %v", h)
	}
}
