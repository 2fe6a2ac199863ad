package middleware

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// DefaultLimit is the default of [Timeout].
const DefaultLimit = 30 * time.Second

// Timeout limits the time that one attempt may take: the message's context
// carries a deadline, and what runs inside should end when the context does.
// The handler is not cut off. When it returns, the context ends and the message
// gets back the one that it came with.
//
// It is Watermill's own Timeout without a timer per message: one is armed only
// when the context's Done channel is asked for, which a message that is
// delivered at once never needs.
//
// On a lane the context has the same deadline, for middleware further in. The
// lane itself does not count the time that a message waits behind others: it
// asks for the limit ([lanectx.LimitOf]) and applies it to the delivery. Of
// several nested timeouts the shortest counts.
type Timeout struct {
	// Limit is the time for one attempt. 0: 30 s.
	Limit time.Duration
}

// Validate returns an error when the limit is negative.
func (t Timeout) Validate() error {
	if t.Limit < 0 {
		return fmt.Errorf("timeout: limit is %v: give a duration above 0", t.Limit)
	}
	return nil
}

// Middleware returns the handler with the limit around it.
func (t Timeout) Middleware(h message.HandlerFunc) message.HandlerFunc {
	limit := t.DeliveryLimit()
	boxed := any(limit) // once, not for every lane that asks
	return func(msg *message.Message) ([]*message.Message, error) {
		parent := msg.Context()
		ctx := &lazyContext{parent: parent, deadline: time.Now().Add(limit), limit: boxed}
		msg.SetContext(ctx)
		defer func() { // also when the handler panics
			ctx.end()
			msg.SetContext(parent)
		}()
		return h(msg)
	}
}

// AfterDelivery is the marker of a [Layer]: where messages are delivered first, the
// lane limits the delivery itself.
func (Timeout) AfterDelivery() {}

// DeliveryLimit returns the limit, which the lane applies where it delivers first.
func (t Timeout) DeliveryLimit() time.Duration {
	if t.Limit <= 0 {
		return DefaultLimit
	}
	return t.Limit
}
