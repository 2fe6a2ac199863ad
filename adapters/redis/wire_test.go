package redis

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// wireMessages cover what the wire format has to say.
func wireMessages() []*message.Message {
	full := adapters.NewMessage(&adapters.Row{
		ID: "01J-full", Type: "order.created", Group: "order-1", AggregateType: "order", AggregateID: "1",
		Tenant: "acme", Tags: map[string]string{"k": "v"}, Headers: map[string]string{"traceparent": "00-1", "empty": "", "long": strings.Repeat("l", 300),
			strings.Repeat("k", 40): strings.Repeat("v", 70_000)},
		Payload: []byte("{ \"n\": 1.0 }"), Position: 9, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}, "orders/07")
	for i := range 20 { // more than the short form of a map has
		full.Metadata["header-"+string(rune('a'+i))] = "é"
	}
	binary := adapters.NewMessage(&adapters.Row{ID: "01J-bin", Type: "t", Payload: []byte{0, 0xff}, Binary: true}, "orders/00")
	return []*message.Message{full, binary, message.NewMessage("bare", []byte("x"))}
}

// subscribe reads n messages with a subscriber of watermill-redisstream, in order.
func subscribe(t *testing.T, sub message.Subscriber, stream string, n int) (got []*message.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	messages, err := sub.Subscribe(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	for len(got) < n {
		msg, ok := <-messages
		if !ok {
			t.Fatalf("the subscriber read %d of %d messages", len(got), n)
		}
		got = append(got, msg)
		msg.Ack()
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	return got
}

func TestWatermillsSubscriberReadsOurs(t *testing.T) {
	t.Parallel()
	address, stream, msgs := testenv.Redis(t), newKey(t), wireMessages()
	d := destination(t, Config{Servers: at(address), Stream: stream})
	if errs := d.Deliver(t.Context(), stream, msgs); errs != nil {
		t.Fatal(errs)
	}
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{Client: client(t, address), ConsumerGroup: "g", DisableIndefiniteInitialBlock: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, msg := range subscribe(t, sub, stream, len(msgs)) {
		if !msg.Equals(msgs[i]) {
			t.Errorf("watermill-redisstream's subscriber reads %+v, want %+v", msg, msgs[i])
		}
	}
}

func TestEntriesAreThoseOfWatermill(t *testing.T) {
	t.Parallel()
	address, ours, msgs := testenv.Redis(t), newKey(t), wireMessages()
	theirs := ours + "-theirs"
	d := destination(t, Config{Servers: at(address), Stream: "{{.Type}}"})
	if errs := d.Deliver(t.Context(), ours, msgs); errs != nil {
		t.Fatal(errs)
	}
	p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client(t, address)}, nil)
	if err == nil {
		err = p.Publish(theirs, msgs...)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, address)
	got, want := entries(t, c, ours), entries(t, c, theirs)
	for i := range want {
		g, w := got[i].Values, want[i].Values
		if len(g["metadata"].(string)) != len(w["metadata"].(string)) { // the order of a map is free
			t.Errorf("entry %d: metadata of %d bytes, watermill-redisstream's publisher writes %d", i, len(g["metadata"].(string)), len(w["metadata"].(string)))
		}
		delete(g, "metadata")
		delete(w, "metadata")
		if !maps.Equal(g, w) {
			t.Errorf("entry %d is %v, watermill-redisstream's publisher writes %v", i, g, w)
		}
	}
}

// No header replaces a field that the format has.
func TestAHeaderNamedPayloadGivesWay(t *testing.T) {
	t.Parallel()
	address, stream := testenv.Redis(t), newKey(t)
	d := destination(t, Config{Servers: at(address), Stream: stream, Format: format.Raw})
	msg := newMessage("1", "g", 1)
	msg.Metadata["payload"] = "theirs"
	if errs := d.Deliver(t.Context(), stream, []*message.Message{msg}); errs != nil {
		t.Fatal(errs)
	}
	if got := entries(t, client(t, address), stream)[0].Values["payload"]; got != string(msg.Payload) {
		t.Errorf("the payload is %q, want %q", got, msg.Payload)
	}
}

func TestMaxLenTrimsTheStream(t *testing.T) {
	t.Parallel()
	address, stream := testenv.Redis(t), newKey(t)
	d := destination(t, Config{Servers: at(address), Stream: stream, MaxLen: 200})
	deliverAll(t, d, stream, sequence("g", 1000), 100)
	if n := len(entries(t, client(t, address), stream)); n < 200 || n > 400 {
		t.Errorf("%d entries are left, want about 200", n)
	}
}

// A server of 8.6 gets the id of each message, under its lane. One that does not understand it is not asked again.
func TestRepeatedMessagesAreRecognised(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"8.6.0": true, "8.10.1": true, "9.0": true, "8.4.9": false, "7.0.15": false, "": false, "x.y": false} {
		if hasIDMP(version) != want {
			t.Errorf("version %q: %v", version, !want)
		}
	}
	address, stream := testenv.Redis(t), newKey(t)
	d := destination(t, Config{Servers: at(address), Stream: stream})
	args, err := d.xadd(stream, newMessage("1", "g", 1), true)
	if want := []any{"xadd", stream, "idmp", "test/00", "1", "*"}; err != nil || !slices.Equal(args[:6], want) {
		t.Errorf("%v, %v, want %v", args[:6], err, want)
	}
	l := &link{UniversalClient: d.cfg.open(1), asked: true, unique: true} // which 7.0 does not have
	d.links.idle = append(d.links.idle, l)
	msgs := sequence("g", 3)
	if got := kinds(msgs, d.Deliver(t.Context(), stream, msgs)); got != "g-00000 unavailable, g-00001 unavailable, g-00002 unavailable" {
		t.Error(got)
	}
	deliverAll(t, d, stream, msgs, 3)
	if n := wantOnceInOrder(t, client(t, address), stream, msgs); n != 0 {
		t.Errorf("%d duplicates", n)
	}
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	address, stream := testenv.Redis(t), newKey(t)
	d := destination(t, Config{Servers: at(address), Stream: "{{.Type}}"})
	msgs := sequence("g", maxWaveMessages+7)
	if err := d.Publish(stream, msgs...); err != nil {
		t.Fatal(err)
	}
	if n := wantOnceInOrder(t, client(t, address), stream, msgs); n != 0 {
		t.Errorf("%d duplicates", n)
	}
	if err := client(t, address).Set(t.Context(), stream+"-text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := d.Publish(stream+"-text", msgs[0]); err == nil || !strings.Contains(err.Error(), "message "+msgs[0].UUID) || !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("publishing to something else than a stream: %v", err)
	}
}

func TestNamesOfStreams(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{Servers: at("127.0.0.1:1"), Stream: "{{.Type}}", Allowed: func(stream string) bool { return stream != "secret" }})
	for typ, ok := range map[string]bool{"orders": true, "{shop}:orders": true, "secret": false, "a b": false, "a\n": false, "\xff": false, strings.Repeat("x", 513): false} {
		msg := newMessage("1", "g", 1)
		msg.Metadata["outrider_type"] = typ
		if _, err := d.Address(msg); (err == nil) != ok {
			t.Errorf("%q: %v", typ, err)
		}
	}
}

// A server that has stored some messages of a wave understands ids of producers: only the others failed.
func TestAWaveThatIsStoredInPartKeepsItsIDs(t *testing.T) {
	t.Parallel()
	refused := outbox.Transient(errors.New("ERR refused"), 0)
	for _, tt := range []struct {
		errs []error
		want bool // ids are no longer sent
	}{{nil, false}, {[]error{nil, refused, nil}, false}, {[]error{outbox.Permanent(errors.New("no"))}, false}, {[]error{refused, refused}, true}} {
		d := &Destination{cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
		if d.foundUnique(tt.errs); d.noRepeat.Load() != tt.want {
			t.Errorf("%v: without ids %v, want %v", tt.errs, d.noRepeat.Load(), tt.want)
		}
	}
}
