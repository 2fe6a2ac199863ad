package router

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// crowd counts the chains that run at once.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		n := c.now.Add(1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		defer c.now.Add(-1)
		return h(msg)
	}
}

func TestALaneThatMovesKeepsToItsShare(t *testing.T) {
	inBubble(t, outbox.Ordering{Unit: outbox.UnitWave, MaxMessages: 100, Static: true}, func(r *rig) {
		const n = 3 * paceTotal
		var c crowd
		r.dest.setFail(func(string, *message.Message) error {
			time.Sleep(10 * time.Microsecond)
			return nil
		})
		r.config.Memory = 1 << 30
		for i := range n {
			r.add(sameLane(1)[0], fmt.Sprint("m", i))
		}
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.Poll.Batch, rt.Middleware = n, n, []message.HandlerMiddleware{c.middleware}
		}))
		r.await(n)
		if most := c.most.Load(); most > paceTotal || most < paceTotal/2 {
			t.Errorf("%d chains ran at once, want at most %d and half of that", most, paceTotal)
		}
		r.stop()
		if lanes := r.router.pace.lanes.Load(); lanes != 0 {
			t.Errorf("%d lanes have chains after the end", lanes)
		}
	})
}

func TestALaneThatDoesNotMoveGoesBeyondItsShare(t *testing.T) {
	inBubble(t, outbox.Ordering{Unit: outbox.UnitWave, MaxMessages: 100, Static: true}, func(r *rig) {
		const n = 3 * paceTotal
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

func TestAShareHasPlentyWhenHalfOfWhatItCouldHaveIsFree(t *testing.T) {
	b := &budget{limit: 1000, wake: func() {}}
	one, two := share{budget: b}, share{budget: b}
	if !one.plenty() {
		t.Error("nothing is used, and yet there is not plenty")
	}
	for one.take(10) {
	}
	if used := one.used.Load(); used != 800 {
		t.Errorf("a route alone took %d of 1000, want four fifths", used)
	}
	if free, most := two.room(); free != 160 || most != 160 {
		t.Errorf("beside it there is room for %d of %d, want four fifths of the rest", free, most)
	}
	if one.plenty() || !two.plenty() {
		t.Error("only the one that uses nothing has plenty")
	}
	one.give(390)
	if one.plenty() {
		t.Error("410 of 800 are used: not plenty")
	}
	one.give(10)
	if !one.plenty() {
		t.Error("400 of 800 are used: plenty")
	}
}

func TestAReaderThatWaitsForPlentyIsWoken(t *testing.T) {
	woken := 0
	b := &budget{limit: 1000, wake: func() { woken++ }}
	s := share{budget: b}
	s.take(450)
	s.low.Store(true)
	s.give(40)
	if woken != 0 {
		t.Error("woken before there was plenty")
	}
	s.give(10)
	s.give(10)
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
}
