package router

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// gatekeeper is a destination that answers some messages with what says that it takes nothing: all of them while it is away, and always those
// of the group "bad".
type gatekeeper struct {
	*receiver
	answer outbox.Error

	mu   sync.Mutex
	away bool
	sent map[string]int
}

func (d *gatekeeper) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	time.Sleep(time.Millisecond)
	d.mu.Lock()
	refused, answer := d.away, d.answer
	for _, msg := range batch {
		d.sent[msg.UUID]++
		refused = refused || msg.Metadata[outbox.MetaGroup] == "bad"
	}
	d.mu.Unlock()
	if !refused {
		return d.receiver.Deliver(ctx, address, batch)
	}
	errs := make([]error, len(batch))
	for i := range errs {
		e := answer
		errs[i] = &e
	}
	return errs
}

func (d *gatekeeper) setAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

func (d *gatekeeper) count(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent[id]
}

func inGatekeeper(t *testing.T, answer outbox.Error, f func(r *queueRig, d *gatekeeper)) {
	t.Helper()
	answer.Err, answer.Answered = errors.New("no"), true
	inQueueBubble(t, adapters.Ordering{MaxMessages: 5, MaxGroups: 1, MaxRequests: 3}, func(r *queueRig) {
		d := &gatekeeper{receiver: r.dest, answer: answer, sent: map[string]int{}}
		r.begin(func(rt *Route) {
			rt.Destination, rt.Attempts = d, 4
			rt.Middleware = []message.HandlerMiddleware{
				middleware.Poison{}.Middleware,
				middleware.Retry{Attempts: 4, Base: time.Second, Max: time.Second, Jitter: middleware.NoJitter}.Middleware,
			}
			rt.Poll = Poll{Batch: 500, Min: 100 * time.Millisecond, Max: time.Second}
		})
		f(r, d)
	})
}

var gatekeepers = map[string]outbox.Error{
	"404": {Kind: outbox.KindUnavailable}, "410": {Kind: outbox.KindGone}, "429": {Kind: outbox.KindUnavailable, RetryAfter: 200 * time.Millisecond},
}

// A message that alone is refused, while others are delivered, has failed like any other: it ends after its attempts, and delays nobody for longer
// than a probe. One whose address asks to wait is sent ever more rarely instead.
func TestG6_ARefusalOfOneMessageIsItsOwn(t *testing.T) {
	for name, answer := range gatekeepers {
		t.Run(name, func(t *testing.T) {
			inGatekeeper(t, answer, func(r *queueRig, d *gatekeeper) {
				r.put("", "bad", "bad")
				time.Sleep(50 * time.Millisecond)
				n := 0
				for range 100 { // twenty a second
					for g := range 10 {
						r.put("", fmt.Sprint("g", g), fmt.Sprint("m", n))
						n++
					}
					time.Sleep(500 * time.Millisecond)
					if got := r.table.statuses()["done"]; got < n-20 {
						t.Fatalf("%d of %d are delivered: they are more than a second behind", got, n)
					}
				}
				if sent := d.count("bad"); sent > 12 {
					t.Errorf("it was sent %d times in 50 s", sent)
				}
				if answer.RetryAfter == 0 {
					r.wantRow("bad", "dead", 4)
				}
				r.stop()
				r.wantParked()
			})
		})
	}
}

// While a platform is away, and again, nothing is charged, whatever was sent when it went.
func TestG10_APlatformThatIsAwayCostsNoAttempts(t *testing.T) {
	for name, answer := range gatekeepers {
		if answer.Kind == outbox.KindGone {
			continue // paused until an operator resumes it
		}
		t.Run(name, func(t *testing.T) {
			inGatekeeper(t, answer, func(r *queueRig, d *gatekeeper) {
				for outage := range 6 {
					for i := range 20 {
						r.put("", fmt.Sprint("g", i%10), fmt.Sprint(outage, "-", i))
					}
					time.Sleep(time.Duration(outage) * time.Millisecond)
					d.setAway(true)
					time.Sleep(30 * time.Second)
					d.setAway(false)
					r.until("it is back", func() bool { return r.table.statuses()["done"] == 20*(outage+1) })
				}
				r.stop()
				for outage := range 6 {
					for i := range 20 {
						r.wantRow(fmt.Sprint(outage, "-", i), "done", 0)
					}
				}
			})
		})
	}
}

// Refusals of messages show that an address is back, as deliveries do.
func TestG6_RefusalsAfterAnOutage(t *testing.T) {
	inGatekeeper(t, outbox.Error{Kind: outbox.KindUnavailable}, func(r *queueRig, d *gatekeeper) {
		d.setAway(true)
		for i := range 60 {
			r.put("", fmt.Sprint("g", i), strconv.Itoa(i))
		}
		time.Sleep(10 * time.Second)
		d.mu.Lock()
		d.answer.Kind = outbox.KindPermanent
		d.mu.Unlock()
		time.Sleep(10 * time.Second)
		r.wantStatuses(map[string]int{"dead": 60})
		r.stop()
	})
}
