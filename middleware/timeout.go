package middleware

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/lanectx"
)

// DefaultLimit is the default of [Timeout].
const DefaultLimit = 30 * time.Second

// Timeout limits the time that one attempt may take: the message's context has a deadline, and inner handlers should end when the context
// does. The handler is not cut off. When it returns, the context ends and the message gets back the one that it came with.
//
// It is Watermill's own Timeout without a timer per message: a timer is armed only when the context's Done channel is used, which a message that
// is delivered at once never needs.
//
// On a lane the context has the same deadline, for middleware further in. The lane itself does not count the time that a message waits behind
// others: it takes the limit ([lanectx.LimitOf]) and applies it to the delivery. Of several nested timeouts the shortest counts.
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

// AfterDelivery is the marker of a [Layer]: where messages are delivered first, the lane limits the delivery itself.
func (Timeout) AfterDelivery() {}

// DeliveryLimit returns the limit, which the lane applies where it delivers first.
func (t Timeout) DeliveryLimit() time.Duration {
	if t.Limit <= 0 {
		return DefaultLimit
	}
	return t.Limit
}

// lazyContext is a context with a deadline that costs one allocation until more is needed. Deadline, Err and Value are answered from its
// fields while it lasts; the first call of Done, or of Err after it ended, arms it: it creates an ordinary context.WithDeadline and from
// then on only passes calls on.
//
// Because Value is passed on too, package context finds its own cancelCtx behind the Done channel: contexts derived from this one attach to
// that directly, without the goroutine that a foreign context costs.
type lazyContext struct {
	parent   context.Context
	deadline time.Time
	limit    any // a time.Duration, answered for lanectx.Limit

	armed atomic.Pointer[context.Context] // nil until armed
	ended atomic.Bool

	mu     sync.Mutex // serialises arm and end
	cancel context.CancelFunc
}

// Deadline returns the earlier of the parent's deadline and its own.
func (c *lazyContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done arms the context.
func (c *lazyContext) Done() <-chan struct{} { return c.arm().Done() }

// Err returns nil while the context lasts. Its first other answer
// must hold forever and agree with Done, so it is left to the armed context.
func (c *lazyContext) Err() error {
	if ctx := c.armed.Load(); ctx != nil {
		return (*ctx).Err()
	}
	if !c.ended.Load() && c.parent.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.arm().Err()
}

// Value answers lanectx.Limit with the shortest limit, its own or an outer timeout's, and everything else from the parent.
func (c *lazyContext) Value(key any) any {
	if key == lanectx.Limit {
		own, _ := c.limit.(time.Duration)
		if outer, ok := lanectx.LimitOf(c.parent); ok && outer < own {
			return outer
		}
		return c.limit
	}
	if ctx := c.armed.Load(); ctx != nil {
		return (*ctx).Value(key)
	}
	return c.parent.Value(key)
}

// arm returns the ordinary context, creating it on the first call.
func (c *lazyContext) arm() context.Context {
	if ctx := c.armed.Load(); ctx != nil {
		return *ctx
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx := c.armed.Load(); ctx != nil {
		return *ctx
	}
	var ctx context.Context
	if c.ended.Load() {
		// Asked for the first time after the handler returned: that is what
		// ended it, although its deadline or parent may have passed since.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(c.parent))
		cancel()
	} else {
		ctx, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	c.armed.Store(&ctx)
	return ctx
}

// end cancels the context, armed or not.
func (c *lazyContext) end() {
	c.mu.Lock()
	c.ended.Store(true)
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Quiet reports to a lane with a quiet parent that only the limit is added, which does not run while a message waits for its turn.
func (c *lazyContext) Quiet() bool { return lanectx.IsQuiet(c.parent) }
