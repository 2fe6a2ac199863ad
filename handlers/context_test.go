package handlers

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/lanectx"
	"github.com/outriderhq/outrider/outbox"
)

func (c *chain) with(ctx context.Context) *chain {
	c.msg.SetContext(ctx)
	return c
}

// timeout ends the message's context after d, like Watermill's own Timeout.
func (c *chain) timeout(d time.Duration) *chain {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	c.bench.t.Cleanup(cancel)
	return c.with(ctx)
}

func TestADeadlineThatPassesWhileAMessageWaitsReleasesIt(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		first, second := b.enter("1", "a", "x"), b.enter("2", "a", "x").timeout(time.Second).handle()
		elapse(time.Second - 1)
		second.waits()
		elapse(1)
		wantKind(t, second.result(), outbox.KindReleased)
		first.handle()
		b.sent("1").answer <- nil
		b.silent()
		second.with(context.Background()).handle()
		b.sent("2").answer <- nil
		wantNil(t, second.result())
		b.empty()
	})
}

func TestADeadlineThatPassesWhileAMessageIsInLine(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		c := b.enter("1", "a", "x").timeout(time.Second).handle()
		elapse(time.Second)
		wantKind(t, c.result(), outbox.KindReleased)
		b.closed.Store(false)
		b.gate.Kick()
		b.silent()
		b.gate.Leave(&c.Ticket)
		b.empty()
	})
}

func TestADeadlineThatPassesWhileAMessageIsSentAwaitsTheOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		answer error
		kind   outbox.Kind
	}{
		"delivered": {nil, 0},
		"failed":    {errTest, outbox.KindTransient},
		// Its place is no longer in the next batch: that would have no deadline.
		"collateral": {errReleased, outbox.KindReleased},
	} {
		t.Run(name, func(t *testing.T) {
			inChains(t, func(t *testing.T, ordering setup) {
				b := newBench(t, ordering)
				c, other := b.enter("1", "a", "x").timeout(time.Second), b.enter("2", "b", "x")
				b.together(c, other)
				r := b.sent("1", "2")
				elapse(time.Minute / 10)
				c.waits()
				r.answer <- []error{tt.answer, nil}
				if err := c.result(); tt.answer == nil {
					wantNil(t, err)
				} else {
					wantKind(t, err, tt.kind)
				}
				b.silent()
			})
		})
	}
}

// quiet is a context that is not to be listened to.
type quiet struct {
	context.Context
	listened *atomic.Int32
}

func (q quiet) Quiet() bool { return true }

func (q quiet) Done() <-chan struct{} {
	q.listened.Add(1)
	return q.Context.Done()
}

func TestAQuietContextIsNotListenedTo(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		ctx, cancel := context.WithCancel(t.Context())
		q := quiet{ctx, new(atomic.Int32)}
		first, second := b.enter("1", "a", "x"), b.enter("2", "a", "x").with(q).handle()
		cancel()
		second.waits()
		first.handle()
		b.sent("1", "2").answer <- nil
		wantNil(t, second.result())
		if n := q.listened.Load(); n != 0 {
			t.Errorf("Done was called %d times", n)
		}
	})
}

func limited(d time.Duration) context.Context {
	return context.WithValue(context.Background(), lanectx.Limit, d)
}

func TestTheLimitOfAMessageBoundsItsDelivery(t *testing.T) {
	for name, tt := range map[string]struct {
		limits []time.Duration // per message; 0: none
		send   time.Duration
		want   time.Duration
	}{
		"one":          {[]time.Duration{5 * time.Second}, time.Hour, 5 * time.Second},
		"longest":      {[]time.Duration{5 * time.Second, 7 * time.Second, 0}, time.Hour, 7 * time.Second},
		"send timeout": {[]time.Duration{0, 0}, 3 * time.Second, 3 * time.Second},
		"default":      {[]time.Duration{0}, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inChains(t, func(t *testing.T, ordering setup) {
				b := newBench(t, ordering, func(cfg *GateConfig) { cfg.SendTimeout = cmp.Or(tt.send, cfg.SendTimeout) })
				// The wait for the turn is not part of it.
				first := b.enter("first", "a", "x")
				var chains []*chain
				for _, d := range tt.limits {
					c := b.enter("1", "a", "x")
					if d > 0 {
						c.with(limited(d))
					}
					chains = append(chains, c.handle())
				}
				elapse(time.Minute)
				b.gate.Leave(&first.Ticket)
				b.next()
				start := time.Now()
				err := <-chains[0].ended
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != tt.want {
					t.Errorf("ended after %s with %v, want %s", took, err, tt.want)
				}
			})
		})
	}
}

func TestDeliveryDoesNotInheritTheContextOfAMessage(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		var got atomic.Pointer[context.Context]
		b := newBench(t, ordering, func(cfg *GateConfig) {
			cfg.Destination = &destination{ordering: ordering.Ordering, deliver: func(ctx context.Context, _ string, _ []*message.Message) []error {
				got.Store(&ctx)
				return nil
			}}
		})
		wantNil(t, b.enter("1", "a", "x").timeout(time.Hour).handle().result())
		if (*got.Load()).Err() == nil {
			t.Error("the context of a delivery outlives it")
		}
	})
}
