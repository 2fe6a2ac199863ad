package lane

import (
	"context"
	"errors"
	"reflect"
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
		msg.SetContext(&Item{Session: &Session{Route: &Route{}}})
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

// TestG2_NothingOfAPausedGroupIsTriedAgain: a transaction may last long. If it is rolled back for the sake of one message, what goes with
// it is not delivered without that one when an operator has paused its group meanwhile.
func TestG2_NothingOfAPausedGroupIsTriedAgain(t *testing.T) {
	t.Parallel()
	rt := &Route{}
	batch := make([]*message.Message, 0, 4)
	for _, group := range []string{"a", "b", "c", "d"} {
		msg := message.NewMessage(group, nil)
		it := &Item{Session: &Session{Route: rt}}
		it.key = group
		msg.SetContext(it)
		batch = append(batch, msg)
	}
	bad := outbox.Permanent(errors.New("bad"))
	var tried [][]string
	errs := transaction{in: immediate{}, to: scripted{deliver: func(batch []*message.Message) []error {
		var ids []string
		for _, msg := range batch {
			ids = append(ids, msg.UUID)
		}
		if tried = append(tried, ids); len(tried) > 1 {
			return nil
		}
		rt.paused.Store(&PausedGroups{"b": true, "d": true})
		return []error{nil, nil, bad, nil}
	}}}.Deliver(t.Context(), "", batch)
	if want := [][]string{{"a", "b", "c", "d"}, {"a"}}; !reflect.DeepEqual(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
	if want := []error{nil, errGroupPaused, bad, errGroupPaused}; !slices.Equal(errs, want) {
		t.Errorf("results %v, want %v", errs, want)
	}
}

// scripted is a destination of transactions.
type scripted struct {
	adapters.TxDestination
	deliver func(batch []*message.Message) []error
}

func (s scripted) DeliverTx(_ context.Context, _ any, _ string, batch []*message.Message) (func(), []error) {
	return nil, s.deliver(batch)
}
