package middleware

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Throttle lets messages pass at a limited rate. All handlers that one Throttle is added to share the rate: for a route, all of its lanes.
//
// On a route whose lanes are spread over several instances each instance lets its share of the rate and of the burst pass ([adapters.ShareOf]), so
// that the rate is the route's.
//
// A message waits for its turn only as long as its context allows. If the context ends first, or its deadline would come before the turn, the
// message is released ([outbox.KindReleased]): nothing was attempted. In the latter case Throttle does not wait, and the error says how long the
// wait would have been (RetryAfter).
//
// Turns come in no particular order: messages of one group may wait at the same time, and the lane keeps the order of their deliveries.
//
// A Throttle must not be copied after its first use.
type Throttle struct {
	// Rate is how many messages may pass per second. It has no default; a Throttle without a rate limits nothing, and Validate refuses it.
	Rate float64

	// Burst is how many messages may pass at once after a quiet time. 0: 1.
	Burst int

	once    sync.Once
	limiter *rate.Limiter
	share   atomic.Uint64 // bits of the share that the limiter is set to
	adapts  sync.Mutex    // held to change it
}

// Validate returns an error that names every wrong field and what it may be.
func (t *Throttle) Validate() error {
	var errs []error
	if !between(t.Rate, math.SmallestNonzeroFloat64, math.MaxFloat64) {
		errs = append(errs, fmt.Errorf("throttle: rate is %v: give the messages per second that may pass, above 0", t.Rate))
	}
	if t.Burst < 0 {
		errs = append(errs, fmt.Errorf("throttle: burst is %d: give 1 or more", t.Burst))
	}
	return errors.Join(errs...)
}

// Middleware returns the handler with the wait for a turn before it.
func (t *Throttle) Middleware(h message.HandlerFunc) message.HandlerFunc {
	t.once.Do(t.start)
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := t.wait(msg.Context()); err != nil {
			return nil, err
		}
		return h(msg)
	}
}

func (t *Throttle) start() {
	limit := rate.Inf
	if t.Rate > 0 {
		limit = rate.Limit(t.Rate)
	}
	t.limiter = rate.NewLimiter(limit, max(t.Burst, 1))
	t.share.Store(math.Float64bits(1))
}

// adapt sets the limiter to our share of the route. Messages that wait already keep their turns.
func (t *Throttle) adapt(ctx context.Context) {
	share, _ := adapters.ShareOf(ctx)
	bits := math.Float64bits(share)
	if t.share.Load() == bits || t.Rate <= 0 {
		return
	}
	t.adapts.Lock()
	defer t.adapts.Unlock()
	t.share.Store(bits)
	t.limiter.SetLimit(rate.Limit(t.Rate * share))
	t.limiter.SetBurst(max(int(float64(t.Burst)*share), 1))
}

// wait returns when it is the message's turn, or an error of kind released.
func (t *Throttle) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return outbox.Released(fmt.Errorf("throttle: not attempted: %w", ctx.Err()))
	}
	t.adapt(ctx)
	// Taking a free turn asks for no Done channel: a lazy timeout stays lazy.
	// Messages that wait have reserved theirs, so none is overtaken by this.
	if t.limiter.Allow() {
		return nil
	}
	if err := t.limiter.Wait(ctx); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return outbox.Released(fmt.Errorf("throttle: stopped waiting for a turn: %w", ctx.Err()))
	}
	// The limiter refuses a wait beyond the deadline, but does not say how long.
	next := nanoseconds((1 - t.limiter.Tokens()) / float64(t.limiter.Limit()) * float64(time.Second))
	return &outbox.Error{
		Kind: outbox.KindReleased,
		Err: fmt.Errorf("throttle: the next turn is in %v (%g/s), after the message's deadline: %w",
			next, float64(t.limiter.Limit()), context.DeadlineExceeded),
		RetryAfter: max(next, 0),
	}
}
