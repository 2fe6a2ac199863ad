package redis

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox/format"
)

func subscriber(t *testing.T, address string) *Subscriber {
	t.Helper()
	s, err := NewSubscriber(SubscriberConfig{Servers: at(address), Group: "outrider"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// receive takes n messages, and acknowledges those that ack says.
func receive(t *testing.T, in <-chan *message.Message, n int, ack func(*message.Message) bool) (ids []string) {
	t.Helper()
	patience := time.After(30 * time.Second)
	for len(ids) < n {
		select {
		case msg, ok := <-in:
			if !ok {
				t.Fatalf("the subscription ended after %v", ids)
			}
			ids = append(ids, msg.UUID)
			if ack(msg) {
				msg.Ack()
			}
		case <-patience:
			t.Fatalf("%d messages came, want %d: %v", len(ids), n, ids)
		}
	}
	return ids
}

func always(*message.Message) bool { return true }

func TestWhatWatermillsPublisherWritesIsRead(t *testing.T) {
	t.Parallel()
	address, stream, msgs := testenv.Redis(t), newKey(t), wireMessages()
	p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client(t, address)}, nil)
	if err == nil {
		err = p.Publish(stream, msgs...)
	}
	if err != nil {
		t.Fatal(err)
	}
	in, err := subscriber(t, address).Subscribe(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range msgs {
		got := <-in
		if !got.Equals(want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
		got.Ack()
	}
}

// What a subscription has received and not acknowledged comes first in the next one, in order; what was acknowledged does not come again.
func TestG1_G2_ASubscriptionBeginsWithWhatTheLastOneLeft(t *testing.T) {
	t.Parallel()
	address, stream := testenv.Redis(t), newKey(t)
	d := destination(t, Config{Servers: at(address), Stream: stream})
	deliverAll(t, d, stream, sequence("g", 10), 10)
	var got []string
	for range 3 { // each is gone without an answer to its last message
		ctx, cancel := context.WithCancel(t.Context())
		in, err := subscriber(t, address).Subscribe(ctx, stream)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		ids := receive(t, in, 3, func(*message.Message) bool { n++; return n < 3 })
		got = append(got, ids[:2]...)
		cancel()
		for range in { // it ends
		}
	}
	in, err := subscriber(t, address).Subscribe(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, receive(t, in, 10-len(dedupe(got)), always)...)
	var want []string
	for _, msg := range sequence("g", 10) {
		want = append(want, msg.UUID)
	}
	if got = dedupe(got); !slices.Equal(got, want) {
		t.Errorf("in this order came %v", got)
	}
}

// dedupe leaves the first of each: an acknowledgement may be cut off with its subscription.
func dedupe(ids []string) (once []string) {
	for _, id := range ids {
		if !slices.Contains(once, id) {
			once = append(once, id)
		}
	}
	return once
}

// Entries of other producers are messages too: an id of their own, or one that is the same whenever they are read.
func TestEntriesOfOthersAreRead(t *testing.T) {
	t.Parallel()
	address, stream := testenv.Redis(t), newKey(t)
	raw := destination(t, Config{Servers: at(address), Stream: stream, Format: format.Raw})
	deliverAll(t, raw, stream, sequence("g", 1), 1)
	c := client(t, address)
	for _, values := range [][]string{{"a", "1", "payload", "x"}, {redisstream.UUIDHeaderKey, "own", "metadata", "\xff broken"}} {
		if err := c.Do(t.Context(), "xadd", stream, "*", values[0], values[1], values[2], values[3]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	in, err := subscriber(t, address).Subscribe(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-in; !got.Equals(sequence("g", 1)[0]) {
		t.Errorf("the message of format raw is read as %+v", got)
	} else {
		got.Ack()
	}
	if ids := receive(t, in, 2, always); len(ids[0]) != 32 || ids[1] == "" || ids[0] == ids[1] {
		t.Errorf("the ids are %q", ids)
	}
}

// A server that is killed ends the subscription, or is back in time; the next one loses nothing.
func TestG1_AKilledServerLosesNoMessage(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t)
	d := destination(t, Config{Servers: at(s.Address()), Stream: "orders"})
	deliverAll(t, d, "orders", sequence("g", 6), 6)
	sub := subscriber(t, s.Address())
	var got []string
	patience := time.After(30 * time.Second)
	for len(dedupe(got)) < 6 {
		in, err := sub.Subscribe(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		for open := true; open && len(dedupe(got)) < 6; {
			select {
			case msg, ok := <-in:
				if open = ok; !ok {
					break
				}
				if got = append(got, msg.UUID); len(got) == 3 {
					s.Kill()
					s.Start()
				}
				msg.Ack()
			case <-patience:
				t.Fatalf("only %v came", got)
			}
		}
	}
	if !slices.IsSorted(dedupe(got)) {
		t.Errorf("in this order came %v", got)
	}
	if err := sub.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
