package adaptertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Destination runs the suite. setup is called once per test and registers its
// own clean-up with t.
func Destination(t *testing.T, setup func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Arrival", arrival},
		{"Bytes", binary},
		{"EmptyPayloads", emptyPayloads},
		{"Address", address},
		{"EmptyBatch", emptyBatch},
		{"G2_OrderAcrossBatches", orderAcrossBatches},
		{"Concurrent", concurrent},
		{"Cancelled", cancelled},
		{"G6_CancelWhileHanging", cancelWhileHanging},
		{"G10_MissingAddress", missingAddress},
		{"G10_Unreachable", unreachable},
		{"G2_RejectedMessage", rejected},
		{"Close", closes},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := setup(t)
			t.Cleanup(func() { _ = h.Destination.Close() })
			test.run(t, h)
		})
	}
}

func arrival(t *testing.T, h Harness) {
	msgs := mixed([]string{"a", "b", ""}, 5)
	noErrors(t, msgs, deliver(t.Context(), h.Destination, h.Addresses[0], msgs))
	if h.Received == nil {
		return
	}
	got := h.Received(t, h.Addresses[0])
	if len(got) != len(msgs) {
		t.Fatalf("%d messages arrived, want %d", len(got), len(msgs))
	}
	for _, msg := range msgs {
		i := slices.IndexFunc(got, func(r Received) bool { return bytes.Equal(r.Payload, msg.Payload) })
		if i < 0 {
			t.Errorf("the payload of %s did not arrive byte for byte: %s", msg.UUID, msg.Payload)
			continue
		}
		want := Received{
			ID: msg.UUID, Type: msg.Metadata[outbox.MetaType],
			Position: msg.Metadata[outbox.MetaPosition], Lane: msg.Metadata[outbox.MetaLane],
		}
		have := got[i]
		have.Payload = nil
		if !h.Opaque && fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("message %s arrived as %+v, want %+v", msg.UUID, have, want)
		}
	}
}

func binary(t *testing.T, h Harness) {
	r := row("a", 0)
	r.Payload, r.Binary = []byte{0, 1, '"', '\n', 0xff, 0xfe}, true
	msgs := append([]*message.Message{adapters.NewMessage(r, lane)}, messages("a", 1, 1)...)
	msgs = append(msgs, messages("b", 0, 1)...)
	errs := deliver(t.Context(), h.Destination, h.Addresses[0], msgs)
	if h.JSONOnly {
		wantKind(t, msgs[0], errs[0], outbox.KindPermanent)
		if h.Destination.Ordering().MaxMessages > 2 {
			wantKind(t, msgs[1], errs[1], outbox.KindReleased)
		}
		wantDelivered(t, msgs[2], errs[2])
		return
	}
	noErrors(t, msgs, errs)
	if h.Received == nil {
		return
	}
	got := h.Received(t, h.Addresses[0])
	if !slices.ContainsFunc(got, func(g Received) bool { return bytes.Equal(g.Payload, r.Payload) }) {
		t.Errorf("the bytes %q did not arrive as they are", r.Payload)
	}
}

// emptyPayloads delivers payloads without bytes, which are empty at the receiver,
// and nothing else: not absent, as a null of Kafka is, which deletes a key.
func emptyPayloads(t *testing.T, h Harness) {
	empty, absent := row("a", 0), row("b", 0)
	empty.Payload, empty.Binary = []byte{}, true
	absent.Payload, absent.Binary = nil, true
	msgs := []*message.Message{adapters.NewMessage(empty, lane), adapters.NewMessage(absent, lane)}
	msgs[1].Payload = nil // as a middleware may leave it
	msgs = append(msgs, messages("c", 0, 1)...)
	errs := deliver(t.Context(), h.Destination, h.Addresses[0], msgs)
	if h.JSONOnly {
		wantKind(t, msgs[0], errs[0], outbox.KindPermanent)
		wantKind(t, msgs[1], errs[1], outbox.KindPermanent)
		wantDelivered(t, msgs[2], errs[2])
		return
	}
	noErrors(t, msgs, errs)
	if h.Received == nil {
		return
	}
	n := 0
	for _, g := range h.Received(t, h.Addresses[0]) {
		if len(g.Payload) > 0 {
			continue
		}
		if n++; g.Payload == nil {
			t.Errorf("message %s arrived without a payload instead of with an empty one", g.ID)
		}
	}
	if n != 2 {
		t.Errorf("%d empty payloads arrived, want 2", n)
	}
}

func address(t *testing.T, h Harness) {
	first, err := h.Destination.Address(messages("a", 0, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Destination.Address(messages("b", 1, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	if h.Destination.Ordering().Static && first != second {
		t.Errorf("the ordering is static, but two messages have the addresses %q and %q", first, second)
	}
}

func emptyBatch(t *testing.T, h Harness) {
	if errs := h.Destination.Deliver(t.Context(), h.Addresses[0], nil); errs != nil {
		t.Errorf("delivering nothing returns %v, want nil", errs)
	}
}

func orderAcrossBatches(t *testing.T, h Harness) {
	groups := []string{"a", "b", "c"}
	const batches, each = 8, 15
	for i := range batches {
		var batch []*message.Message
		for n := range each {
			for _, g := range groups {
				batch = append(batch, messages(g, i*each+n, 1)...)
			}
		}
		noErrors(t, batch, deliver(t.Context(), h.Destination, h.Addresses[0], batch))
	}
	if h.Received == nil {
		return
	}
	for _, g := range groups {
		wantInOrder(t, h, h.Addresses[0], messages(g, 0, batches*each))
	}
}

func concurrent(t *testing.T, h Harness) {
	const senders, each = 4, 20
	var wg sync.WaitGroup
	for s := range senders {
		for i, to := range h.Addresses {
			wg.Go(func() {
				msgs := messages(fmt.Sprintf("g%d-%d", i, s), 0, each)
				noErrors(t, msgs, deliver(t.Context(), h.Destination, to, msgs))
			})
		}
	}
	wg.Wait()
	if h.Received == nil {
		return
	}
	for s := range senders {
		for i, to := range h.Addresses {
			wantInOrder(t, h, to, messages(fmt.Sprintf("g%d-%d", i, s), 0, each))
		}
	}
}

func cancelled(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	msgs := messages("a", 0, 1)
	errs := h.Destination.Deliver(ctx, h.Addresses[0], msgs)
	if len(errs) != 1 {
		t.Fatalf("%d errors for one message", len(errs))
	}
	wantKind(t, msgs[0], errs[0], outbox.KindReleased)
}

func cancelWhileHanging(t *testing.T, h Harness) {
	if h.Hang == nil {
		t.Skip("the receiver cannot hang")
	}
	release := sync.OnceFunc(h.Hang(t))
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	msgs := messages("a", 0, 1)
	result := make(chan []error, 1)
	go func() { result <- h.Destination.Deliver(ctx, h.Addresses[0], msgs) }()
	cancel()
	select {
	case errs := <-result:
		if len(errs) != 1 || errs[0] == nil {
			t.Errorf("a delivery that was cancelled returns %v, want one error", errs)
		}
	case <-time.After(maxWait):
		t.Fatal("a cancelled delivery does not return")
	}
	release()
	recovers(t, h, h.Addresses[0], messages("b", 0, 3))
}

func missingAddress(t *testing.T, h Harness) {
	if h.Missing == "" {
		t.Skip("any address takes messages")
	}
	msgs := mixed([]string{"a", "b"}, 2)
	for i, err := range deliver(t.Context(), h.Destination, h.Missing, msgs) {
		wantHarmless(t, msgs[i], err)
	}
	noErrors(t, msgs, deliver(t.Context(), h.Destination, h.Addresses[0], msgs)) // others flow
	h.Create(t)
	recovers(t, h, h.Missing, msgs)
}

func unreachable(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("the receiver cannot be made unreachable")
	}
	msgs := mixed([]string{"a", "b"}, 2)
	repair := h.Break(t)
	for i, err := range deliver(t.Context(), h.Destination, h.Addresses[0], msgs) {
		wantHarmless(t, msgs[i], err)
	}
	repair()
	recovers(t, h, h.Addresses[0], msgs)
}

// recovers delivers until the receiver is back, and checks that everything
// arrived in order.
func recovers(t *testing.T, h Harness, address string, msgs []*message.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	left := msgs
	for len(left) > 0 {
		if ctx.Err() != nil {
			t.Fatalf("the destination does not recover: %d messages are left", len(left))
		}
		var again []*message.Message
		held := map[string]bool{}
		for i, err := range deliver(ctx, h.Destination, address, left) {
			g := left[i].Metadata[outbox.MetaGroup]
			if err == nil && held[g] {
				t.Fatalf("message %s was delivered although an earlier one of group %q was not", left[i].UUID, g)
			}
			if err != nil {
				again, held[g] = append(again, left[i]), true
			}
		}
		left = again
	}
	if h.Received == nil {
		return
	}
	byGroup := map[string][]*message.Message{}
	for _, msg := range msgs {
		g := msg.Metadata[outbox.MetaGroup]
		byGroup[g] = append(byGroup[g], msg)
	}
	for _, group := range byGroup {
		wantInOrder(t, h, address, group)
	}
}

func rejected(t *testing.T, h Harness) {
	if h.Reject == nil {
		t.Skip("the receiver cannot refuse a message")
	}
	msgs := mixed([]string{"a", "b", "c"}, 10)
	h.Reject("a-0003")
	h.Reject("c-0000")
	held := map[string]bool{}
	for i, err := range h.Destination.Deliver(t.Context(), h.Addresses[0], msgs[:batchLen(h.Destination.Ordering(), msgs)]) {
		msg := msgs[i]
		g := msg.Metadata[outbox.MetaGroup]
		switch {
		case msg.UUID == "a-0003", msg.UUID == "c-0000":
			wantKind(t, msg, err, outbox.KindPermanent)
			held[g] = true
		case held[g]:
			wantKind(t, msg, err, outbox.KindReleased)
		default:
			wantDelivered(t, msg, err)
		}
	}
	if h.Received == nil {
		return
	}
	for _, g := range h.Received(t, h.Addresses[0]) {
		if g.ID == "a-0003" || g.ID == "c-0000" {
			t.Errorf("message %s was refused and arrived", g.ID)
		}
	}
}

func closes(t *testing.T, h Harness) {
	msgs := messages("a", 0, 1)
	noErrors(t, msgs, deliver(t.Context(), h.Destination, h.Addresses[0], msgs))
	for range 2 {
		if err := h.Destination.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
