package router

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// guarded is a receiver that is reached through doors, one for each session.
type guarded struct {
	*receiver
	mu    sync.Mutex
	doors []*door
}

// door is what one session delivers through.
type door struct {
	adapters.Destination
	lane    string
	owned   adapters.Owned
	batches atomic.Int64
	busy    atomic.Int64
	closed  atomic.Bool
}

func (g *guarded) Fence(lane string, owned adapters.Owned) adapters.Destination {
	d := &door{Destination: g.receiver, lane: lane, owned: owned}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doors = append(g.doors, d)
	return d
}

func (d *door) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	d.busy.Add(1)
	defer d.busy.Add(-1)
	d.batches.Add(1)
	if ours, err := d.owned(ctx); err != nil || !ours || d.closed.Load() {
		panic("a batch for a lane that is not ours, or through a closed door")
	}
	return d.Destination.Deliver(ctx, address, batch)
}

func (d *door) Close() error {
	if d.busy.Load() > 0 || d.closed.Swap(true) {
		panic("closed twice, or during a delivery")
	}
	return nil
}

// opened returns the doors that are not closed, by lane.
func (g *guarded) opened(t *testing.T) map[string]*door {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	open := map[string]*door{}
	for _, d := range g.doors {
		if d.closed.Load() {
			continue
		}
		if open[d.lane] != nil {
			t.Errorf("lane %s has two sessions at once", d.lane)
		}
		open[d.lane] = d
	}
	return open
}

// owns asks an open door of each lane whose the lane is.
func owns(t *testing.T, doors map[string]*door) (n int) {
	t.Helper()
	for _, d := range doors {
		ours, err := d.owned(t.Context())
		if err != nil {
			t.Error(err)
		}
		if ours {
			n++
		}
	}
	return n
}

func TestG2_EachSessionHasADoorOfItsOwn(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		g := &guarded{receiver: r.dest}
		r.config.Lease = time.Hour // no renewal tells it
		r.fill(100, 5)
		r.start(r.route(func(rt *Route) { rt.Destination = g }))
		r.await(500)
		first := g.opened(t)
		used := 0
		for _, d := range first {
			if d.batches.Load() > 0 {
				used++
			}
		}
		if len(first) != adapters.Slots || used < adapters.Slots/2 || owns(t, first) != adapters.Slots {
			t.Errorf("%d doors, %d used, %d lanes are ours; want %d of each, more or less", len(first), used, owns(t, first), adapters.Slots)
		}
		r.state.steal()
		if n := owns(t, first); n != 0 {
			t.Errorf("%d lanes are still called ours, by what is remembered", n)
		}
		r.state.evict()
		r.state.expire("b")
		r.stop()
		if n := len(g.opened(t)); n != 0 {
			t.Errorf("%d doors are open after the end", n)
		}
	})
}

func TestG2_ASessionThatFollowsHasAnotherDoor(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		g := &guarded{receiver: r.dest}
		r.fill(10, 5)
		r.start(r.route(func(rt *Route) { rt.Destination = g }))
		r.await(50)
		time.Sleep(time.Second) // settled
		first := g.opened(t)
		r.state.evict() // and nobody takes them: they are taken anew
		r.until("all lanes have other sessions", func() bool {
			now := g.opened(t)
			for lane, d := range now {
				if first[lane] == d {
					return false
				}
			}
			return len(now) == adapters.Slots
		})
		r.fillFrom(10, 5, 10)
		r.await(100)
		for lane, d := range first {
			if !d.closed.Load() {
				t.Errorf("the first door of lane %s is open", lane)
			}
		}
		r.stop()
		r.checkOrdered(10, 10)
	})
}
