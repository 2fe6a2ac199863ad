package nats

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

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
			adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness { return harness(t, f, true) })
		})
	}
	t.Run("without batches", func(t *testing.T) {
		t.Parallel()
		adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness { return harness(t, format.Raw, false) })
	})
}

// headerNames are where each format keeps what identifies a message.
var headerNames = map[format.Format][4]string{
	format.Raw:         {"id", "type", outbox.MetaPosition, outbox.MetaLane},
	format.CloudEvents: {"ce-id", "ce-type", "ce-outriderposition", "ce-outriderlane"},
	format.Watermill:   {"_watermill_message_uuid", outbox.MetaType, outbox.MetaPosition, outbox.MetaLane},
}

func harness(t *testing.T, f format.Format, atomic bool) adaptertest.Harness {
	change := func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = atomic }
	name, js := streamOf(t, shared.url, change)
	proxy := testenv.StartProxy(t, strings.TrimPrefix(shared.url, "nats://"))
	missing := "missing-" + name + ".x"
	return adaptertest.Harness{
		Destination: destination(t, "nats://"+proxy.Address(), Config{Subject: name + ".{{.Type}}", Format: f, Timeout: 2 * time.Second}),
		Addresses:   []string{name + ".a", name + ".b.c"},
		Missing:     missing,
		Create:      func(t *testing.T) { createStream(t, js, "missing-"+name, []string{missing}, change) },
		Received: func(t *testing.T, subject string) (got []adaptertest.Received) {
			names := headerNames[f]
			for _, msg := range stored(t, js, subject) {
				data := msg.Data
				if data == nil {
					data = []byte{} // NATS has no message without a payload
				}
				got = append(got, adaptertest.Received{ID: msg.Header.Get(names[0]), Type: msg.Header.Get(names[1]),
					Position: msg.Header.Get(names[2]), Lane: msg.Header.Get(names[3]), Payload: data})
			}
			return got
		},
		Hang:  func(*testing.T) func() { return proxy.Hang() },
		Break: func(*testing.T) func() { return proxy.Down() },
	}
}

// Messages whose outcome was unknown come again with others: the batch is refused, and each is stored once, in order.
func TestMessagesThatAreStoredCountAsDelivered(t *testing.T) {
	t.Parallel()
	for _, atomic := range []bool{true, false} {
		t.Run(map[bool]string{true: "batches", false: "single"}[atomic], func(t *testing.T) {
			t.Parallel()
			name, js := streamOf(t, shared.url, func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = atomic })
			d := destination(t, shared.url, Config{Subject: name + ".a"})
			var msgs []*message.Message
			for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
				msgs = append(msgs, newMessage(id, map[bool]string{true: "a", false: "b"}[id < "4"], 10))
			}
			for _, wave := range [][]*message.Message{msgs[:4], msgs[2:], msgs} {
				if errs := d.Deliver(t.Context(), name+".a", wave); errs != nil {
					t.Fatal(results(wave, errs))
				}
			}
			if got := ids(t, js, name+".a", "a"); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("group a has %v", got)
			}
			if got := ids(t, js, name+".a", "b"); !slices.Equal(got, []string{"4", "5", "6"}) {
				t.Errorf("group b has %v", got)
			}
			if got := d.Duplicates(); got != 8 {
				t.Errorf("%d duplicates were counted, want 8", got)
			}
		})
	}
}

// A message that the server or the stream refuses is found in its wave; nothing behind it in its group is stored.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, atomic := range []bool{true, false} {
		for limit, size := range map[string]int{"stream": 3000, "server": 2 << 20} {
			t.Run(map[bool]string{true: "batches ", false: "single "}[atomic]+limit, func(t *testing.T) {
				t.Parallel()
				name, js := streamOf(t, shared.url, func(cfg *jetstream.StreamConfig) {
					cfg.AllowAtomicPublish = atomic
					if limit == "stream" {
						cfg.MaxMsgSize = 2000
					}
				})
				d := destination(t, shared.url, Config{Subject: name + ".a"})
				msgs := []*message.Message{newMessage("1", "a", 10), newMessage("2", "a", size), newMessage("3", "a", 10), newMessage("4", "b", 10), newMessage("5", "", 10)}
				errs := d.Deliver(t.Context(), name+".a", msgs)
				want := map[string]string{"1": "ok", "2": "permanent", "3": "released", "4": "ok", "5": "ok"}
				if got := results(msgs, errs); !maps.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				wantError(t, errs[1], "too large: raise")
				if got := ids(t, js, name+".a", "a"); !slices.Equal(got, []string{"1"}) {
					t.Errorf("group a has %v", got)
				}
			})
		}
	}
}

func TestHeadersThatCannotBeSent(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	d := destination(t, shared.url, Config{Subject: name + ".a"})
	for key, value := range map[string]string{"Nats-Rollup": "all", "nats-msg-id": "x", "a b": "x", "a:b": "x", "é": "x", "": "x", "line": "a\r\nNats-Rollup: all", "space": " x"} {
		msgs := []*message.Message{newMessage("1", "a", 1), newMessage("2", "a", 1)}
		msgs[0].Metadata[key] = value
		errs := d.Deliver(t.Context(), name+".a", msgs)
		if got := results(msgs, errs); !maps.Equal(got, map[string]string{"1": "permanent", "2": "released"}) {
			t.Errorf("header %q: %v", key, got)
		}
	}
	odd := []*message.Message{newMessage(" 1", "a", 1)}
	if got := results(odd, d.Deliver(t.Context(), name+".a", odd)); got[" 1"] != "permanent" {
		t.Errorf("an id that NATS would change: %v", got)
	}
	if got := stored(t, js, name+".a"); len(got) != 0 {
		t.Errorf("%d messages were stored", len(got))
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	d := destination(t, shared.url, Config{Subject: "{{.Type}}", Allowed: func(subject string) bool { return subject != "payments" }})
	for subject, want := range map[string]bool{"orders.created": true, "payments": false, "$SYS.x": false, "_INBOX.x": false, "a b": false, "a.*": false, "a.>": false,
		".a": false, "a.": false, "a..b": false, strings.Repeat("a", 256): false} {
		msg := newMessage("1", "g", 1)
		msg.Metadata[outbox.MetaType] = subject
		if _, err := d.Address(msg); (err == nil) != want || err != nil && outbox.KindOf(err) != outbox.KindPermanent {
			t.Errorf("subject %s: %v", subject, err)
		}
	}
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	d := destination(t, shared.url, Config{Subject: name + ".a"})
	var msgs []*message.Message
	var want []string
	for i := range maxWaveMessages + 7 {
		id := time.Duration(i).String()
		want, msgs = append(want, id), append(msgs, newMessage(id, "g", 10))
	}
	if err := d.Publish(name+".a", msgs...); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, js, name+".a", "g"); !slices.Equal(got, want) {
		t.Errorf("%d messages arrived, want %d in order", len(got), len(want))
	}
	wantError(t, d.Publish("nowhere", msgs[0]), "message 0s: nats: no stream covers")
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	one := Connection{Servers: []string{"a:1"}}
	for want, cfg := range map[string]Config{
		"servers: none given":          {Subject: "s"},
		"subject: none given":          {Connection: one},
		`template "{{.Typ}}"`:          {Connection: one, Subject: "{{.Typ}}"},
		`"a b" is not a valid subject`: {Connection: one, Subject: "a b"},
		`format "xml" is unknown`:      {Connection: one, Subject: "s", Format: "xml"},
		"timeout: 1ms is too short":    {Connection: one, Subject: "s", Timeout: time.Millisecond},
		`"a.b" is not a valid name`:    {Connection: one, Subject: "s", Stream: "a.b"},
		"exclude each other: give one": {Connection: Connection{Servers: one.Servers, User: "u", Token: "t"}, Subject: "s"},
	} {
		_, err := New(cfg)
		wantError(t, err, want)
	}
}

func TestDeliveryAfterClose(t *testing.T) {
	t.Parallel()
	d := destination(t, shared.url, Config{Subject: "s"})
	_ = d.Close()
	msgs := []*message.Message{newMessage("1", "g", 1)}
	if got := results(msgs, d.Deliver(context.Background(), "s", msgs)); got["1"] != "released" {
		t.Errorf("a delivery after Close: %v", got)
	}
}
