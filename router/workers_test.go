package router

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// crowd counts the chains that run at once.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		n := c.now.Add(1)
		most := c.most.Load()
		for n > most && !c.most.CompareAndSwap(most, n) {
			most = c.most.Load()
		}
		defer c.now.Add(-1)
		return h(msg)
	}
}

// unhurried takes every message, each a moment of the bubble's time.
func unhurried(string, *message.Message) error {
	time.Sleep(10 * time.Microsecond)
	return nil
}

func TestALaneThatMovesKeepsToItsShare(t *testing.T) {
	inBubble(t, adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 100, Static: true}, func(r *rig) {
		const n = 3 * lane.TotalChains
		var c crowd
		r.dest.setFail(unhurried)
		r.config.Memory = 1 << 30
		for i := range n {
			r.add(sameLane(1)[0], fmt.Sprint("m", i))
		}
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.Poll.Batch, rt.Middleware = n, n, []message.HandlerMiddleware{c.middleware}
		}))
		r.await(n)
		if most := c.most.Load(); most > lane.TotalChains || most < lane.TotalChains/2 {
			t.Errorf("%d chains ran at once, want at most %d and half of that", most, lane.TotalChains)
		}
		r.stop()
		if lanes := r.router.shared.Busy.Load(); lanes != 0 {
			t.Errorf("%d lanes have chains after the end", lanes)
		}
	})
}

func TestALaneThatDoesNotMoveGoesBeyondItsShare(t *testing.T) {
	inBubble(t, adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: 100, Static: true}, func(r *rig) {
		const n = 3 * lane.TotalChains
		var c crowd
		h := newHanging(nil, sameLane(1)...)
		r.dest.setFail(h.fault)
		r.config.Memory = 1 << 30
		for i := range n {
			r.add(sameLane(1)[0], fmt.Sprint("m", i))
		}
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.Poll.Batch, rt.SendTimeout = n, n, time.Hour
			rt.Middleware = []message.HandlerMiddleware{c.middleware}
		}))
		r.until("all chains", func() bool { return c.now.Load() == n })
		close(h.release)
		r.await(n)
		r.stop()
	})
}

// A batch of one group comes from one lane: with all lanes at work, each may still
// have what fills one.
func TestLanesThatShareTheLimitFillBatchesOfOneGroup(t *testing.T) {
	inBubble(t, adapters.Ordering{MaxMessages: 100, MaxGroups: 1, MaxRequests: 100, Static: true}, func(r *rig) {
		const n = 500
		names := map[int]string{} // one group in each lane
		for i := 0; len(names) < adapters.Slots; i++ {
			group := fmt.Sprint("g", i)
			names[adapters.SlotOf(group, "")] = group
		}
		for i := range n {
			for _, group := range names {
				r.add(group, fmt.Sprint(group, "-", i))
			}
		}
		r.dest.setFail(unhurried)
		r.config.Memory = 1 << 30
		r.start(r.route(func(rt *Route) { rt.Window, rt.Poll.Batch = adapters.Slots*n, adapters.Slots*n }))
		r.await(adapters.Slots * n)
		r.stop()
		if mean := adapters.Slots * n / r.dest.batches; mean <= lane.LeastChains {
			t.Errorf("%d messages in a batch on average, want more than %d", mean, lane.LeastChains)
		}
	})
}

// Messages behind one that hangs fill the lane's share for good; what others
// get beyond it must not depend on somebody's patience each time.
func TestG6_AFullShareIsGotPastOnce(t *testing.T) {
	inBubble(t, adapters.Ordering{MaxMessages: 100, MaxRequests: 100, Static: true}, func(r *rig) {
		const n = 12 * lane.TotalChains
		names := sameLane(2)
		h := newHanging(nil, names[0])
		r.dest.setFail(h.fault)
		r.config.Memory = 1 << 30
		for i := range lane.TotalChains - 1 {
			r.add(names[0], fmt.Sprint("slow", i))
		}
		for i := range n {
			r.add(names[1], fmt.Sprint("fast", i))
		}
		began := time.Now()
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.Poll.Batch, rt.SendTimeout, rt.Middleware = 32*lane.TotalChains, 32*lane.TotalChains, time.Hour, nil
		}))
		r.await(n)
		if waited := time.Since(began); waited > 10*lane.StallPatience {
			t.Errorf("the others took %v", waited)
		}
		close(h.release)
		r.await(n + lane.TotalChains - 1)
		r.stop()
	})
}

// What comes to a lane that keeps to its share does not make it wait longer.
func TestG6_ALaneThatDoesNotMoveIsNotHeldByWhatArrives(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		names := sameLane(2)
		h := newHanging(nil, names[0])
		r.dest.setFail(h.fault)
		r.config.Memory = 1 << 30
		route, f := r.fromFeed(func(rt *Route) { rt.Window, rt.SendTimeout, rt.Middleware = 1<<16, time.Hour, nil })
		r.start(route)
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		for i := range lane.TotalChains {
			msg := message.NewMessage(fmt.Sprint("slow", i), []byte(`{}`))
			msg.Metadata[outbox.MetaGroup], msg.Metadata["address"] = names[0], "slow"
			f.out <- msg
		}
		time.Sleep(time.Second)
		began := time.Now()
		for i := range 1000 {
			f.send(names[1], fmt.Sprint("m", i))
			time.Sleep(5 * time.Millisecond)
			if i == 100 && r.dest.count() < 50 {
				t.Errorf("%d have arrived after %v", r.dest.count(), time.Since(began))
			}
		}
		close(h.release)
		r.await(1000 + lane.TotalChains)
		r.stop()
	})
}
