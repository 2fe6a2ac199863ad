package middleware

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Layer is one layer of a route's middleware. All middleware of this package are layers; [Func] converts any Watermill middleware.
//
// A layer may do anything by default, so each message waits in its chain for its own delivery. A layer that only uses the result of a delivery
// has the method AfterDelivery():
//
//	func (Audit) AfterDelivery() {}
//
// If all layers of a route have it, messages are delivered first, in batches, and each runs through the chain afterwards; the innermost handler
// returns the outcome of the delivery at once. That takes about half of the processor time per message. Poison, Retry, Timeout, Metrics and
// Tracing are such layers; Dedupe, Throttle and Breaker are not. One layer without the marker makes the whole chain run around the delivery, so
// marked layers must work both ways.
//
// What a marked layer does before it calls its handler happens after the delivery: a message that it changes has been sent unchanged, and an
// error that it returns for a delivered message is logged and has no effect. A marked layer must call its handler: otherwise the outcome
// of the delivery counts, so a failed message is attempted again, and the route logs it once.
//
// A marked layer that has to do something before, such as setting a header or taking the time, can have a second method,
// BeforeDelivery(msg *message.Message). It is called for each attempt, the outermost layer's first, just before the message is handed over, and
// only if messages are delivered first. It may set metadata, payload, and a context derived from the message's own. It blocks the lane, so it
// must not wait. A panic in it fails the attempt.
type Layer interface {
	// Middleware returns the handler with the layer around it. It is called once for each lane.
	Middleware(h message.HandlerFunc) message.HandlerFunc
}

// Func is a Watermill middleware as a [Layer] that may do anything.
type Func message.HandlerMiddleware

// Middleware implements [Layer].
func (f Func) Middleware(h message.HandlerFunc) message.HandlerFunc { return f(h) }

// AfterDelivery is a Watermill middleware that only uses the result of a delivery, see [Layer].
type AfterDelivery message.HandlerMiddleware

// Middleware implements [Layer].
func (f AfterDelivery) Middleware(h message.HandlerFunc) message.HandlerFunc { return f(h) }

// AfterDelivery is the marker.
func (AfterDelivery) AfterDelivery() {}

// Chain describes the layers of a route. Create one with [NewChain].
type Chain struct {
	// Middleware is the stack, outermost first.
	Middleware []message.HandlerMiddleware

	// DeliverFirst reports whether all layers have the marker, see [Layer].
	DeliverFirst bool

	// Before is called for each attempt before its delivery; empty unless DeliverFirst.
	Before []func(*message.Message)

	// Limit bounds the delivery in the place of [Timeout], which DeliverFirst leaves out of the stack. 0: there is none.
	Limit time.Duration
}

// NewChain returns the chain of layers, outermost first.
func NewChain(layers ...Layer) Chain {
	c := Chain{DeliverFirst: true}
	for _, l := range layers {
		if _, marked := l.(interface{ AfterDelivery() }); !marked {
			c.DeliverFirst = false
		}
	}
	for _, l := range layers {
		if limit, ok := l.(interface{ DeliveryLimit() time.Duration }); ok && c.DeliverFirst {
			if d := limit.DeliveryLimit(); c.Limit == 0 || d < c.Limit {
				c.Limit = d
			}
			continue
		}
		c.Middleware = append(c.Middleware, l.Middleware)
		if b, ok := l.(interface{ BeforeDelivery(*message.Message) }); ok && c.DeliverFirst {
			c.Before = append(c.Before, b.BeforeDelivery)
		}
	}
	return c
}
