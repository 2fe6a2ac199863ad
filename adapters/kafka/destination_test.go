package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, f := range []format.Format{format.Raw, format.CloudEvents, format.Watermill} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness { return harness(t, f) })
		})
	}
	t.Run("exclusive", func(t *testing.T) {
		t.Parallel()
		adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness {
			b := connect(t, testenv.Kafka(t))
			d := destination(t, Config{Brokers: b.addrs, Topic: "{{.Type}}", Timeout: patient,
				Exclusive: true, TransactionalID: newName(t)})
			h := harnessOf(t, b, d)
			h.Destination = d.Fence("orders/07", func(context.Context) (bool, error) { return true, nil })
			return h
		})
	})
}

// patient is how long a broker may take on a busy machine. What must fail in time does not wait for it.
const patient = 15 * time.Second

// headerNames are where each format keeps what identifies a message.
var headerNames = map[format.Format][4]string{
	format.Raw:         {"id", "type", outbox.MetaPosition, outbox.MetaLane},
	format.CloudEvents: {"ce_id", "ce_type", "ce_outriderposition", "ce_outriderlane"},
	format.Watermill:   {"_watermill_message_uuid", outbox.MetaType, outbox.MetaPosition, outbox.MetaLane},
}

func harness(t *testing.T, f format.Format) adaptertest.Harness {
	b := connect(t, testenv.Kafka(t))
	return harnessOf(t, b, destination(t, Config{Brokers: b.addrs, Topic: "{{.Type}}", Format: f, Timeout: patient}))
}

func harnessOf(t *testing.T, b *cluster, d *Destination) adaptertest.Harness {
	f := d.cfg.Format
	proxy := testenv.StartProxy(t, b.addrs[0])
	missing := newName(t) + "-missing"
	return adaptertest.Harness{
		Destination: viaProxy(t, proxy, d),
		Addresses:   []string{b.topic(t, 3, nil), b.topic(t, 1, nil)},
		Missing:     missing,
		Create:      func(t *testing.T) { b.create(t, missing, 2, nil) },
		Received: func(t *testing.T, topic string) []adaptertest.Received {
			var got []adaptertest.Received
			names := headerNames[f]
			for _, r := range b.records(t, topic) {
				got = append(got, adaptertest.Received{
					ID: header(r, names[0]), Type: header(r, names[1]),
					Position: header(r, names[2]), Lane: header(r, names[3]), Payload: r.Value,
				})
			}
			return got
		},
		Hang:  func(*testing.T) func() { return proxy.Hang() },
		Break: func(*testing.T) func() { return proxy.Down() },
	}
}

func TestKeyIsTheGroup(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 3, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: topic})
	msgs := []*message.Message{newMessage("1", "g", 1), newMessage("2", "", 1)}
	if errs := d.Deliver(t.Context(), topic, msgs); errs != nil {
		t.Fatal(errs)
	}
	for _, r := range b.records(t, topic) {
		switch id := header(r, "id"); {
		case id == "1" && string(r.Key) != "g":
			t.Errorf("the key of a message of group g is %q", r.Key)
		case id == "2" && r.Key != nil:
			t.Errorf("a message without a group has the key %q, want none", r.Key)
		}
	}
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 2, nil)
	d := destination(t, Config{Brokers: b.addrs, Topic: "{{.Type}}", Compression: "zstd"})
	const n = maxWaveMessages + 7
	var msgs []*message.Message
	var want []string
	for i := range n {
		id := strings.Repeat("0", i%3) + time.Duration(i).String()
		want = append(want, id)
		msgs = append(msgs, newMessage(id, "g", 10))
	}
	if err := d.Publish(topic, msgs...); err != nil {
		t.Fatal(err)
	}
	if got := b.ids(t, topic, "g"); !slices.Equal(got, want) {
		t.Errorf("%d messages arrived, want %d in order", len(got), len(want))
	}
	if err := d.Publish(newName(t), msgs[0]); err == nil || !strings.Contains(err.Error(), "message "+want[0]) {
		t.Errorf("publishing to a topic that does not exist: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	exists, missing := b.topic(t, 1, nil), newName(t)
	for topic, want := range map[string]string{
		exists:      "",
		"{{.Type}}": "",
		missing:     "kafka-topics.sh --create --topic " + missing,
	} {
		wantError(t, destination(t, Config{Brokers: b.addrs, Topic: topic}).Check(t.Context()), want)
	}
	down := destination(t, Config{Brokers: []string{testenv.Refused(t)}, Topic: exists, Timeout: 2 * time.Second})
	wantError(t, down.Check(t.Context()), "connection refused")
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("unexpected error: %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "app.{{.Type}}"})
	if got, err := d.Address(newMessage("1", "g", 1)); got != "app.test.happened" || err != nil {
		t.Errorf("Address = %q, %v", got, err)
	}
	odd := newMessage("1", "g", 1)
	odd.Metadata[outbox.MetaType] = "order created"
	if _, err := d.Address(odd); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), "app.order created") {
		t.Errorf("a name that Kafka does not allow: %v, want a permanent error that quotes it", err)
	}
}

// Who writes a row chooses its topic, but not one of Kafka's own, nor one that is not
// allowed, with either client.
func TestATemplateLeadsToAllowedTopicsOnly(t *testing.T) {
	t.Parallel()
	cfg := Config{Brokers: []string{"127.0.0.1:1"}, Topic: "{{.Type}}", Allowed: func(topic string) bool { return topic != "payments" }}
	theirs, err := NewWatermillKafka(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]adapters.Destination{"franz": destination(t, cfg), "watermill": theirs} {
		for topic, want := range map[string]bool{"orders": true, "payments": false, "_orders": false, "__consumer_offsets": false, "..": false} {
			msg := newMessage("1", "g", 1)
			msg.Metadata[outbox.MetaType] = topic
			if _, err := d.Address(msg); (err == nil) != want || err != nil && outbox.KindOf(err) != outbox.KindPermanent {
				t.Errorf("%s: topic %s: %v", name, topic, err)
			}
		}
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"brokers: none given":             {Topic: "t"},
		"topic: none given":               {Brokers: []string{"a:1"}},
		`template "{{.Typ}}"`:             {Brokers: []string{"a:1"}, Topic: "{{.Typ}}"},
		`"a b" is not a valid topic name`: {Brokers: []string{"a:1"}, Topic: "a b"},
		`format "xml" is unknown`:         {Brokers: []string{"a:1"}, Topic: "t", Format: "xml"},
		`compression: "rar" is unknown`:   {Brokers: []string{"a:1"}, Topic: "t", Compression: "rar"},
		"timeout: 1ms is too short":       {Brokers: []string{"a:1"}, Topic: "t", Timeout: time.Millisecond},
		"max message bytes: 5 is not":     {Brokers: []string{"a:1"}, Topic: "t", MaxMessageBytes: 5},
		"clients: -1 is negative":         {Brokers: []string{"a:1"}, Topic: "t", Clients: -1},
		`mechanism "GSSAPI" is unknown`:   {Brokers: []string{"a:1"}, Topic: "t", SASL: &SASL{"GSSAPI", "u", "p"}},
		"PLAIN needs a username":          {Brokers: []string{"a:1"}, Topic: "t", SASL: &SASL{Mechanism: "PLAIN"}},
		"needs a username and a password": {Brokers: []string{"a:1"}, Topic: "t", SASL: &SASL{"PLAIN", "u", ""}},
	} {
		_, err := New(cfg)
		wantError(t, err, want)
	}
	all := Config{Format: "xml", Compression: "rar"}
	_, err := New(all)
	for _, want := range []string{"brokers", "topic", "format", "compression"} {
		wantError(t, err, want)
	}
}

func TestDelivererAfterClose(t *testing.T) {
	t.Parallel()
	d, err := New(Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	msgs := []*message.Message{newMessage("1", "g", 1)}
	if got := results(msgs, d.Deliver(t.Context(), "t", msgs)); !maps.Equal(got, map[string]string{"1": "released"}) {
		t.Errorf("a delivery after Close: %v", got)
	}
}
