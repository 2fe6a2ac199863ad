package nats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

func subscriber(t *testing.T, cfg SubscriberConfig) *Subscriber {
	t.Helper()
	cfg.Servers, cfg.Consumer = []string{shared.url}, "c"
	s, err := NewSubscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// subscribe returns the messages of a stream, and what ends the subscription and waits for that.
func subscribe(t *testing.T, s *Subscriber, stream string) (msgs <-chan *message.Message, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	msgs, err := s.Subscribe(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	return msgs, func() {
		cancel()
		for msg := range msgs {
			msg.Nack()
		}
	}
}

// What a destination writes is read, in order; what has no verdict, or was refused, comes again.
func TestSubscriber(t *testing.T) {
	t.Parallel()
	name, _ := streamOf(t, shared.url, nil)
	d := destination(t, shared.url, Config{Subject: name + ".a"})
	msgs := []*message.Message{newMessage("1", "g", 10), newMessage("2", "g", 10), newMessage("3", "g", 10), newMessage("4", "g", 10)}
	if errs := d.Deliver(t.Context(), name+".a", msgs); errs != nil {
		t.Fatal(errs)
	}
	s := subscriber(t, SubscriberConfig{AckWait: time.Second})
	wantError(t, s.Check(t.Context(), name), "")
	wantError(t, s.Check(t.Context(), "nowhere"), "stream nowhere")
	received, stop := subscribe(t, s, name)
	take := func(want *message.Message) *message.Message {
		t.Helper()
		got := <-received
		if got.UUID != want.UUID || string(got.Payload) != string(want.Payload) || !maps.Equal(got.Metadata, want.Metadata) {
			t.Fatalf("received %s %s %v, want %s %v", got.UUID, got.Payload, got.Metadata, want.UUID, want.Metadata)
		}
		return got
	}
	take(msgs[0]).Ack()
	take(msgs[1]).Nack()
	take(msgs[1]).Ack()
	take(msgs[2]) // its relay was killed
	stop()
	received, stop = subscribe(t, s, name)
	take(msgs[2]).Ack()
	take(msgs[3]).Ack()
	stop()
	_, err := s.Subscribe(t.Context(), "nowhere")
	wantError(t, err, "stream nowhere")
	down, err := NewSubscriber(SubscriberConfig{Connection: Connection{Servers: []string{testenv.Refused(t)}}, Consumer: "c"})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, down.Check(t.Context(), name), "connection refused")
	_, err = down.Subscribe(t.Context(), name)
	wantError(t, err, "connection refused")
	_, err = NewSubscriber(SubscriberConfig{})
	wantError(t, err, "servers: none given")
}

// Messages of other publishers have an id as well.
func TestSubscriberTakesForeignMessages(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	for _, msg := range []*natsgo.Msg{{Subject: name + ".a", Data: []byte("x")},
		{Subject: name + ".a", Header: natsgo.Header{"Nats-Msg-Id": {"7"}, "Nats-Expected-Stream": {name}, "a": {"1", "2"}}}} {
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	received, stop := subscribe(t, subscriber(t, SubscriberConfig{}), name)
	defer stop()
	for _, want := range []string{name + "-1 map[] x", "7 map[a:1] "} {
		msg := <-received
		if got := fmt.Sprint(msg.UUID, " ", map[string]string(msg.Metadata), " ", string(msg.Payload)); got != want {
			t.Errorf("received %q, want %q", got, want)
		}
		msg.Ack()
	}
}

// Subscriptions that end under load lose nothing, and write to no channel that was closed.
func TestSubscriptionsEndUnderLoad(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			t.Parallel()
			const n = 300
			name, _ := streamOf(t, shared.url, nil)
			var want []string
			var all []*message.Message
			for i := range n {
				want = append(want, fmt.Sprintf("%04d", i))
				all = append(all, adapters.NewMessage(&adapters.Row{ID: want[i], Type: "t", Position: 1, Payload: []byte("{}")}, "test/00"))
			}
			if errs := destination(t, shared.url, Config{Subject: name + ".a"}).Deliver(t.Context(), name+".a", all); errs != nil {
				t.Fatal(errs)
			}
			s := subscriber(t, SubscriberConfig{Workers: workers, AckWait: time.Second})
			got := map[string]bool{}
			var order []string
			for k := 0; len(got) < n; k++ {
				received, stop := subscribe(t, s, name)
				for range 1 + 20*(k%3) {
					if len(got) == n {
						break
					}
					var msg *message.Message
					select {
					case msg = <-received:
					case <-time.After(25 * time.Second):
						t.Fatalf("no message in 25 s after %d of %d", len(got), n)
					}
					if !got[msg.UUID] {
						order = append(order, msg.UUID)
					}
					got[msg.UUID] = true
					msg.Ack()
				}
				stop()
			}
			if workers == 1 && !slices.Equal(order, want) {
				t.Errorf("messages came as %v", order)
			}
		})
	}
}
