package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// ErrBehind is the error of a message that was not sent because an earlier one of its group was not delivered.
var ErrBehind = outbox.Released(errors.New("held back: an earlier message of its group was not delivered"))

// Groups are groups that nothing more may be sent of. A message without a group is in none. The zero value is empty.
type Groups struct{ held map[string]struct{} }

// Hold adds a group.
func (g *Groups) Hold(group string) {
	if group == "" {
		return
	}
	if g.held == nil {
		g.held = make(map[string]struct{})
	}
	g.held[group] = struct{}{}
}

// Has reports whether a group is held.
func (g *Groups) Has(group string) bool {
	if g.held == nil || group == "" {
		return false
	}
	_, ok := g.held[group]
	return ok
}

// Reset empties the set.
func (g *Groups) Reset() { g.held = nil }

// ChargeHeads leaves a transient error, which costs an attempt, to the first message of each group: the others would have been
// delivered after it only. groupOf returns the group of the message that an error is for.
func ChargeHeads(errs []error, groupOf func(int) string) {
	var seen Groups
	for i, err := range errs {
		group := groupOf(i)
		if err == nil || group == "" || outbox.KindOf(err) != outbox.KindTransient {
			continue
		}
		if seen.Has(group) {
			errs[i] = ErrBehind
			continue
		}
		seen.Hold(group)
	}
}

// GroupOf returns the group of a message.
func GroupOf(msg *message.Message) string { return msg.Metadata[outbox.MetaGroup] }

// ProducerOf returns for whom a broker tells event ids apart: the lane of a message, or "outrider" if it came over none.
func ProducerOf(msg *message.Message) string {
	return cmp.Or(msg.Metadata[outbox.MetaLane], "outrider")
}

// Publish implements Watermill's message.Publisher by a destination: all messages in batches of at most most, in order, to the
// address given. The error is that of the first message that was not delivered; messages of other groups may have been.
func Publish(deliver func(context.Context, string, []*message.Message) []error, address string, most int, msgs []*message.Message) error {
	for len(msgs) > 0 {
		n := min(len(msgs), most)
		for i, err := range deliver(context.Background(), address, msgs[:n]) {
			if err != nil {
				return fmt.Errorf("message %s: %w", msgs[i].UUID, err)
			}
		}
		msgs = msgs[n:]
	}
	return nil
}
