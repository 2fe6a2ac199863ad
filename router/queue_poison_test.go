package router

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// condemn is a middleware that refuses these messages for good, before anything of
// them gets to the destination.
func condemn(ids ...string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if slices.Contains(ids, msg.UUID) {
				return nil, outbox.Permanent(errInjected)
			}
			return next(msg)
		}
	}
}

// Two dead messages of one group may be at the poison destination side by side,
// because middleware runs side by side, and even arrive there the wrong way round.
// Nothing else comes of it: each arrives once, and what is behind them waits for both.
// So too when the poison destination fails meanwhile, and when a live message
// before them goes back to the table.
func TestG2_G3_TwoDeadMessagesOfOneGroup(t *testing.T) {
	slow := func(*message.Message) time.Duration { return 5 * time.Second }
	for name, tt := range map[string]struct {
		takes   func(*message.Message) time.Duration
		fails   int // of the first sends to the poison destination
		retries int // of a message before them
	}{
		"side by side": {takes: slow},
		"the wrong way round": {takes: func(msg *message.Message) time.Duration {
			if msg.UUID == "g0-1" {
				return 10 * time.Second
			}
			return time.Second
		}},
		"behind a poison destination that fails": {takes: slow, fails: 3},
		"behind one that is retried":             {takes: slow, retries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				dead := &receiver{ordering: group}
				var fails, retries atomic.Int64
				fails.Store(int64(tt.fails))
				retries.Store(int64(tt.retries))
				dead.setFail(func(_ string, msg *message.Message) error {
					time.Sleep(tt.takes(msg))
					if fails.Add(-1) >= 0 {
						return errors.New("status 503")
					}
					return nil
				})
				r.dest.setFail(func(_ string, msg *message.Message) error {
					if msg.UUID != "g0-0" || retries.Add(-1) < 0 {
						return nil
					}
					time.Sleep(time.Second) // the others are at the poison destination by then
					return errors.New("status 500")
				})
				r.fill(1, 5)
				r.begin(func(rt *Route) {
					rt.Poison, rt.PoisonName, rt.Attempts = dead, "dead", 4
					rt.Middleware = append(stack(time.Second, 4), condemn("g0-1", "g0-2"))
				})
				r.await(3)
				r.stop()
				r.wantStatuses(map[string]int{"done": 3, "dead": 2})
				if got := dead.ids(); !slices.Equal(got, []string{"g0-1", "g0-2"}) {
					t.Errorf("the poison destination got %q, want each dead message once", got)
				}
				if got := r.dest.received()["g0"]; !slices.Equal(got, []string{"g0-0", "g0-3", "g0-4"}) {
					t.Errorf("delivered %q", got)
				}
			})
		})
	}
}
