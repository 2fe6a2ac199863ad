package adaptertest

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// wantInOrder checks that each message arrived and that the first arrivals are
// in order.
func wantInOrder(t *testing.T, h Harness, address string, want []*message.Message) {
	t.Helper()
	got, last := h.Received(t, address), -1
	for _, msg := range want {
		i := slices.IndexFunc(got, func(r Received) bool { return bytes.Equal(r.Payload, msg.Payload) })
		switch {
		case i < 0:
			t.Errorf("message %s did not arrive at %s", msg.UUID, address)
		case i < last:
			t.Errorf("message %s arrived out of order", msg.UUID)
		default:
			last = i
		}
	}
}

// wantHarmless checks that a message was not delivered and lost nothing by it.
func wantHarmless(t *testing.T, msg *message.Message, err error) {
	t.Helper()
	if kind := outbox.KindOf(err); err == nil || kind != outbox.KindUnavailable && kind != outbox.KindReleased {
		t.Errorf("message %s: %v (%v), want unavailable or released", msg.UUID, err, kindName(err))
	}
}

func wantKind(t *testing.T, msg *message.Message, err error, want outbox.Kind) {
	t.Helper()
	if err == nil || outbox.VerdictOf(err).Outcome != outbox.VerdictOf(&outbox.Error{Kind: want, Err: errors.New("")}).Outcome {
		t.Errorf("message %s: %v (%v), want %v", msg.UUID, err, kindName(err), want)
	}
}

func kindName(err error) string {
	if err == nil {
		return "delivered"
	}
	return outbox.KindOf(err).String()
}

func wantDelivered(t *testing.T, msg *message.Message, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("message %s: %v (%v), want it delivered", msg.UUID, err, kindName(err))
	}
}

func noErrors(t *testing.T, msgs []*message.Message, errs []error) {
	t.Helper()
	for i, msg := range msgs {
		wantDelivered(t, msg, errs[i])
	}
}
