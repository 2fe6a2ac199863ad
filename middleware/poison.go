package middleware

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/outriderhq/outrider/outbox"
)

// Poison handles dead messages: a message is dead if it failed permanently ([outbox.Permanent]) or has used up its attempts ([outbox.Exhaust]). It
// belongs outside [Retry]. A released or cancelled message is never dead, so a shutdown poisons nothing.
//
// On a lane the message is parked as dead and, unless Hold is set, its group continues. Publisher is not used there: the lane gives exhausted
// attempts back when the address was at fault, and a published message could not be taken back. A route has a poison destination instead
// (`poison: {to: ...}`), which gets the message once the lane is certain.
//
// Elsewhere a dead message is published to Topic first and acknowledged after. Its metadata then says why, where from and when ([outbox.DeathOf]
// reads it), also under the keys of Watermill's own PoisonQueue, so that tools which read those keep working. A process that ends in between
// publishes it once more. If publishing fails, both failures are returned and the message comes back. Without a Publisher the error is returned
// as it is. A message that is to be skipped ends as handled, as with [Retry].
type Poison struct {
	// Hold makes the group of a dead message wait for an operator. False: the group continues. It has a meaning on a lane only.
	Hold bool

	// Publisher takes dead messages outside of a lane. Nil: none does.
	Publisher message.Publisher

	// Topic is where Publisher publishes them.
	Topic string
}

// Validate reports a publisher without a topic and a topic without a publisher.
func (p Poison) Validate() error {
	switch {
	case p.Publisher != nil && p.Topic == "":
		return errors.New("poison: a publisher is set, but no topic: set the topic for dead messages")
	case p.Publisher == nil && p.Topic != "":
		return fmt.Errorf("poison: topic %q is set, but no publisher: set the publisher, or no topic", p.Topic)
	}
	return nil
}

// Middleware returns the handler with the treatment of dead messages around it.
func (p Poison) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context() // middleware further in may leave one that has ended
		produced, err := h(msg)
		if err == nil {
			return produced, nil
		}
		if _, ok := outbox.AttemptOf(ctx); ok {
			return produced, p.hold(err)
		}
		outcome := outbox.VerdictOf(err).Outcome
		if outcome == outbox.OutcomeSkipped {
			return nil, nil
		}
		// A handler may call every failure permanent, its cancellation among them.
		if outcome != outbox.OutcomeDead || p.Publisher == nil || errors.Is(err, context.Canceled) {
			return produced, err
		}
		return nil, p.publish(ctx, msg, err)
	}
}

// AfterDelivery is the marker of a [Layer]: poison uses the result only.
func (Poison) AfterDelivery() {}

// hold adds to a dead message's verdict that its group waits, if it shall.
func (p Poison) hold(err error) error {
	v := outbox.VerdictOf(err)
	if !p.Hold || v.Outcome != outbox.OutcomeDead {
		return err
	}
	// Replace a decision instead of wrapping it: its text would come twice.
	if d, ok := err.(*outbox.Decision); ok { //nolint:errorlint // only the outermost may be replaced
		v.Err = d.Err
	}
	v.Hold = true
	return &outbox.Decision{Verdict: v}
}

// publish stores a copy of the message with the reason. The original stays as it was, in case it comes back.
func (p Poison) publish(ctx context.Context, msg *message.Message, cause error) error {
	if err := p.Validate(); err != nil {
		return errors.Join(err, cause)
	}
	dead := msg.Copy()
	dead.SetContext(ctx)
	v := outbox.VerdictOf(cause)
	outbox.DeathBy(v, v.Attempts, message.HandlerNameFromCtx(ctx)).Mark(dead.Metadata)
	dead.Metadata.Set(stock.ReasonForPoisonedKey, cause.Error())
	dead.Metadata.Set(stock.PoisonedTopicKey, message.SubscribeTopicFromCtx(ctx))
	dead.Metadata.Set(stock.PoisonedHandlerKey, message.HandlerNameFromCtx(ctx))
	dead.Metadata.Set(stock.PoisonedSubscriberKey, message.SubscriberNameFromCtx(ctx))
	if err := p.Publisher.Publish(p.Topic, dead); err != nil {
		return fmt.Errorf("poison: publish to topic %q: %w; the message is dead because: %w", p.Topic, err, cause)
	}
	return nil
}
