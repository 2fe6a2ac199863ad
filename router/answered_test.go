package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// platform answers a batch as a whole, as FlowCatalyst's API does.
type platform struct {
	*receiver
	refuses func(msg *message.Message) bool
	down    bool

	mu       sync.Mutex
	requests [][]string // ids of every request that was refused
}

func (p *platform) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	ids := make([]string, len(batch))
	for i, msg := range batch {
		ids[i] = msg.UUID
	}
	down, refused := p.down, slices.ContainsFunc(batch, p.refuses)
	if refused && !down {
		p.requests = append(p.requests, ids)
	}
	p.mu.Unlock()
	var err error
	switch {
	case down:
		err = outbox.Unavailable(errors.New("status 503"), 0)
	case refused:
		err = &outbox.Error{Kind: outbox.KindTransient, Err: errors.New("status 400"), Answered: true}
	default:
		return p.receiver.Deliver(ctx, address, batch)
	}
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// refusals counts the refused requests that a message was in.
func (p *platform) refusals(id string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ids := range p.requests {
		if slices.Contains(ids, id) {
			n++
		}
	}
	return n
}

// wantCounted wants every row's attempts to be the refused requests that it was
// in, and death after four of them.
func (p *platform) wantCounted(r *queueRig, groups, n int) {
	r.t.Helper()
	for g := range groups {
		for i := range n {
			id := fmt.Sprintf("g%d-%d", g, i)
			status, refusals := "done", p.refusals(id)
			if refusals == 4 {
				status = "dead"
			}
			r.wantRow(id, status, refusals)
		}
	}
}

// inPlatform runs a test with a queue, a platform and four attempts, the next
// one after the pause.
func inPlatform(t *testing.T, pause time.Duration, f func(r *queueRig, p *platform, begin func())) {
	t.Helper()
	inQueueBubble(t, adapters.Ordering{MaxMessages: 5, MaxGroups: 1, MaxRequests: 3}, func(r *queueRig) {
		p := &platform{receiver: r.dest, refuses: func(*message.Message) bool { return false }}
		f(r, p, func() {
			r.begin(func(rt *Route) {
				rt.Destination, rt.Attempts = p, 4
				rt.Middleware = []message.HandlerMiddleware{
					middleware.Poison{}.Middleware,
					middleware.Retry{Attempts: 4, Base: pause, Max: pause, Jitter: middleware.NoJitter}.Middleware,
				}
				rt.Poll = Poll{Batch: 500, Min: time.Second, Max: time.Second}
			})
		})
	})
}

func TestG2_AnAnswerCountsForTheWholeBatch(t *testing.T) {
	for _, pause := range []time.Duration{time.Millisecond, 3 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			inPlatform(t, pause, func(r *queueRig, p *platform, begin func()) {
				r.fill(6, 8)
				p.refuses = func(msg *message.Message) bool { return msg.UUID == "g1-2" }
				begin()
				r.until("everything has ended", func() bool { s := r.table.statuses(); return s["dead"]+s["done"] == 48 })
				r.stop()
				p.wantCounted(r, 6, 8)
				if got := p.refusals("g1-2"); got != 4 {
					t.Errorf("the refused message was sent %d times, want 4", got)
				}
				r.wantParked()
			})
		})
	}
}

// However many groups are refused, no attempt is the address's.
func TestG2_AnswersNeverTakeAnAddressDown(t *testing.T) {
	inPlatform(t, time.Millisecond, func(r *queueRig, p *platform, begin func()) {
		r.fill(12, 4)
		p.refuses = func(*message.Message) bool { return true }
		begin()
		r.until("everything is dead", func() bool { return r.table.statuses()["dead"] == 48 })
		r.stop()
		p.wantCounted(r, 12, 4)
	})
}

// An outage on the way costs nothing, and an answer ends it: also a refusal.
func TestG10_ARefusalShowsThatTheAddressIsBack(t *testing.T) {
	inPlatform(t, time.Millisecond, func(r *queueRig, p *platform, begin func()) {
		r.fill(4, 3)
		p.refuses = func(msg *message.Message) bool { return msg.Metadata[outbox.MetaGroup] != "g3" }
		p.down = true
		begin()
		time.Sleep(30 * time.Second)
		if got := r.table.statuses(); got["dead"] > 0 {
			t.Errorf("an outage killed: %v", got)
		}
		p.mu.Lock()
		p.down, p.requests = false, nil
		p.mu.Unlock()
		r.await(3)
		r.until("the refused are dead", func() bool { return r.table.statuses()["dead"] == 9 })
		r.stop()
		p.wantCounted(r, 4, 3)
		r.wantStatuses(map[string]int{"dead": 9, "done": 3})
	})
}
