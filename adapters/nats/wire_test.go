package nats

import (
	"context"
	"maps"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox/format"
)

// Watermill's own subscriber reads what a destination writes, and its publisher writes the same message.
func TestWatermillsFormatBothWays(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	d := destination(t, shared.url, Config{Subject: name + ".a"})
	sub, err := wm.NewSubscriber(wm.SubscriberConfig{URL: shared.url}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	received, err := sub.Subscribe(ctx, name+".a")
	if err != nil {
		t.Fatal(err)
	}
	msgs := []*message.Message{newMessage("1", "g", 10), newMessage("2", "g", 10)}
	msgs[0].Metadata["Tenant"] = "é <x>"
	if errs := d.Deliver(t.Context(), name+".a", msgs); errs != nil {
		t.Fatal(errs)
	}
	pub, err := wm.NewPublisher(wm.PublisherConfig{URL: shared.url, JetStream: wm.JetStreamConfig{TrackMsgId: true}}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pub.Close() }()
	theirs := msgs[0].Copy()
	theirs.UUID = "3"
	if err := pub.Publish(name+".a", theirs); err != nil {
		t.Fatal(err)
	}
	for _, want := range append(msgs, theirs) {
		got := <-received
		if got.UUID != want.UUID || string(got.Payload) != string(want.Payload) {
			t.Errorf("received %s %s, want %s", got.UUID, got.Payload, want.UUID)
		}
		for _, batch := range []string{"Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"} {
			delete(got.Metadata, batch) // Watermill takes all headers for metadata
		}
		if !maps.Equal(got.Metadata, want.Metadata) {
			t.Errorf("message %s has the metadata %v, want %v", got.UUID, got.Metadata, want.Metadata)
		}
		got.Ack()
	}
	all := stored(t, js, name+".a")
	ours, published := all[0].Header, all[2].Header
	for _, key := range []string{"_watermill_message_uuid", jetstream.MsgIDHeader} {
		ours.Del(key)
		published.Del(key)
	}
	for _, batch := range []string{"Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"} {
		ours.Del(batch)
	}
	if len(ours) != len(published) {
		t.Errorf("headers %v, Watermill's %v", ours, published)
	}
	for key := range published {
		if ours.Get(key) != published.Get(key) {
			t.Errorf("header %s is %q, Watermill's %q", key, ours.Get(key), published.Get(key))
		}
	}
}

// A CloudEvent has its attributes in headers that begin with ce-, percent-encoded.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	d := destination(t, shared.url, Config{Subject: name + ".a", Format: format.CloudEvents, CloudEventsSource: "/shop"})
	msg := adapters.NewMessage(&adapters.Row{ID: "1", Type: "bestellung bezahlt ü", Group: "g", Position: 1, Payload: []byte("{}")}, "test/00")
	if errs := d.Deliver(t.Context(), name+".a", []*message.Message{msg}); errs != nil {
		t.Fatal(errs)
	}
	h := stored(t, js, name+".a")[0].Header
	for key, want := range map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "bestellung%20bezahlt%20%C3%BC",
		"ce-datacontenttype": "application/json", "content-type": "application/json", "Nats-Msg-Id": "test/00 " + name + ".a 1"} {
		if got := h.Get(key); got != want {
			t.Errorf("header %s is %q, want %q", key, got, want)
		}
	}
}
