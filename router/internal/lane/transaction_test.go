package lane

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// refusing is a destination that refuses all messages, and runs after each refusal what it is told to.
type refusing struct {
	adapters.TxDestination
	then func()
}

func (r refusing) DeliverTx(_ context.Context, _ any, _ string, batch []*message.Message) (func(), []error) {
	defer r.then()
	return nil, slices.Repeat([]error{outbox.Permanent(errors.New("bad"))}, len(batch))
}

// immediate runs deliveries without a transaction.
type immediate struct{ Transactor }

func (immediate) Transact(ctx context.Context, _ []*Item, deliver func(context.Context, any) error) error {
	return deliver(ctx, nil)
}

// TestG1_ATransactionThatRunsOutOfTimeEndsNoMessage: if the time is over while it is not known which message of a batch is at
// fault, all of them are tried again.
func TestG1_ATransactionThatRunsOutOfTimeEndsNoMessage(t *testing.T) {
	t.Parallel()
	batch := []*message.Message{message.NewMessage("a", nil), message.NewMessage("b", nil)}
	for _, msg := range batch {
		msg.SetContext(&Item{})
	}
	for _, over := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		then := func() {}
		if over {
			then = cancel
		}
		errs := transaction{to: refusing{then: then}, in: immediate{}}.Deliver(ctx, "", batch)
		cancel()
		want := outbox.KindPermanent
		if over {
			want = outbox.KindUnavailable
		}
		for i, err := range errs {
			if outbox.KindOf(err) != want {
				t.Errorf("over %v: message %d: %v, want kind %v", over, i, err, want)
			}
		}
		if len(errs) != len(batch) {
			t.Errorf("over %v: %d results, want %d", over, len(errs), len(batch))
		}
	}
}
