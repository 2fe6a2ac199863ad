package router

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// addLarge adds messages of so many bytes, by turns of the groups.
func (r *rig) addLarge(n, groups, size int) {
	for i := range n {
		r.add(fmt.Sprint("g", i%groups), fmt.Sprintf("g%d-%d", i%groups, i/groups))
	}
	for _, row := range r.source.rows {
		row.Payload = make([]byte, size)
	}
}

// What has left a lane for the parking is in memory until its row is written: it counts, so no more is read than fits.
func TestG7_ParkedMessagesCountUntilTheyAreWritten(t *testing.T) {
	const n, size, limit = 60, 100 << 10, 1 << 20
	hold := []message.HandlerMiddleware{middleware.Poison{Hold: true}.Middleware}
	for name, tt := range map[string]struct {
		groups     int
		err        error
		middleware []message.HandlerMiddleware
	}{
		"dead":                   {n, errInjected, nil},
		"dead of one group":      {1, errInjected, nil},
		"held":                   {n, errInjected, hold},
		"waiting for the held":   {3, errInjected, hold},
		"retrying":               {n, outbox.Transient(errInjected, time.Hour), nil},
		"waiting for a retrying": {3, outbox.Transient(errInjected, time.Hour), nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, group, func(r *rig) {
				r.config.Memory = limit
				lent := r.countPayloads()
				r.dest.setFail(func(string, *message.Message) error { return tt.err })
				r.addLarge(n, tt.groups, size)
				route := r.route(nil)
				if tt.middleware != nil {
					route.Middleware, route.DeliverFirst = tt.middleware, false
				}
				r.state.setFail(errInjected)
				r.start(route)
				time.Sleep(time.Minute)
				if alive := lent.alive(); alive > limit/size+1 || alive == 0 {
					t.Errorf("%d payloads of %d bytes are in memory, the limit is %d", alive, size, limit)
				}
				r.state.setFail(nil)
				if tt.err == errInjected { //nolint:errorlint // what is retried may wait for its address instead
					tried := int64(0)
					if tt.groups < n { // the first one of each group, now and then: nothing is ever delivered, so the address may be at fault
						tried = int64(tt.groups) * (size + 8<<10)
					}
					r.until("everything is parked and its memory given back", func() bool {
						return len(r.parked()) == n && r.router.budget.Used.Load() <= tried
					})
				}
				r.stop()
				if used := r.router.budget.Used.Load(); used != 0 {
					t.Errorf("%d bytes were not given back", used)
				}
			})
		})
	}
}

// measured notes by how much payloads that were read back are more than the memory that was taken.
type measured struct {
	*memState
	used func() int64
	over atomic.Int64
}

func (m *measured) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	rows, err := m.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
	total := -m.used()
	for _, row := range rows {
		total += int64(len(row.Payload))
	}
	m.over.Store(max(m.over.Load(), total))
	return rows, err
}

// Parked messages are read back into memory that was taken before, whatever their size: also one that is larger than all of it.
func TestG7_ParkedMessagesAreReadBackIntoTheBudget(t *testing.T) {
	const n, limit = 60, 1 << 20
	for _, size := range []int{10 << 10, 100 << 10, 2 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			inBubble(t, group, func(r *rig) {
				r.config.Memory = limit
				r.dest.setFail(flaky(outbox.Transient(errInjected, 5*time.Second)))
				r.addLarge(n, 3, size)
				store := &measured{memState: r.state, used: func() int64 { return r.router.budget.Used.Load() }}
				r.start(r.route(func(rt *Route) { rt.State = store }))
				r.await(n)
				r.until("nothing is parked", func() bool { return len(r.parked()) == 0 })
				r.stop()
				r.checkOrdered(3, n/3)
				if over := store.over.Load(); over > 0 {
					t.Errorf("%d bytes were read back for which no memory was taken", over)
				}
				if used := r.router.budget.Used.Load(); used != 0 {
					t.Errorf("%d bytes were not given back", used)
				}
			})
		})
	}
}
