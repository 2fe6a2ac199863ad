package router

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// peer is another instance on the rig's source and state store, with a
// destination of its own.
func (r *rig) peer(name string) *rig {
	p := *r
	p.dest = &receiver{ordering: r.dest.ordering}
	p.config.Instance = name
	return &p
}

func TestG3_AStandbyTakesOverAfterLeave(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		a.fill(10, 20)
		a.start(a.route(nil))
		a.await(100)
		b.start(b.route(nil))
		time.Sleep(5 * time.Second)
		if n := b.dest.count(); n != 0 {
			t.Errorf("the standby delivered %d", n)
		}
		a.stop()
		a.fillFrom(10, 20, 40)
		b.await(200)
		time.Sleep(time.Second)
		b.stop()
		a.dest.got = append(a.dest.got, b.dest.got...)
		a.checkOrdered(10, 40)
	})
}

// An owner that was frozen settles nothing after another one took over, and
// works nothing any more.
func TestG3_AFencedOwnerStops(t *testing.T) {
	inBubble(t, group, func(a *rig) {
		b := a.peer("b")
		a.config.Instance, a.config.Lease = "a", time.Hour // no renewal tells it
		numb := &numb{memState: a.state}
		var wrote sync.Map
		a.state.writing = func(s adapters.Settlement) { wrote.Store(s.Epoch, true) }
		a.fill(10, 20)
		a.start(a.route(func(rt *Route) { rt.State = numb }))
		a.await(200)
		time.Sleep(time.Second)
		numb.on.Store(true)
		a.state.expire("a")
		b.start(b.route(nil))
		b.until("b has all lanes", func() bool { return b.router.Stats()[0].Lanes == adapters.Slots })
		a.fillFrom(10, 20, 40) // both read them: only the settle tells
		b.await(200)
		a.until("a has lost the lanes of the groups", func() bool { return a.router.Stats()[0].Lanes < adapters.Slots })
		lost := a.dest.count()
		time.Sleep(5 * time.Second)
		b.fillFrom(10, 40, 60)
		b.await(400)
		time.Sleep(time.Second)
		if n := a.dest.count(); n != lost {
			t.Errorf("the old owner delivered %d more", n-lost)
		}
		a.stop()
		b.stop()
		b.dest.got = append(append([]*message.Message{}, a.dest.got[:200]...), b.dest.got...)
		b.checkOrdered(10, 60)
	})
}

// numb is a state store of which an instance hears nothing of others.
type numb struct {
	*memState
	on atomic.Bool
}

func (n *numb) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	if n.on.Load() {
		return nil, errDead
	}
	return n.memState.Renew(ctx, instance, lease)
}

func (n *numb) Instances(ctx context.Context) ([]adapters.Instance, error) {
	if n.on.Load() {
		return nil, errDead
	}
	return n.memState.Instances(ctx)
}

// A lane that the store no longer counts as ours is given up at the next
// renewal, and what was being sent is cancelled.
func TestG3_LanesLostAtRenewal(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.config.Instance = "a"
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		r.state.mu.Lock()
		for ref := range r.state.owner {
			r.state.owner[ref] = "b"
		}
		r.state.mu.Unlock()
		time.Sleep(DefaultLease/4 + time.Second)
		if s := r.router.Stats()[0]; s.Lanes != 0 {
			t.Errorf("%d lanes are still worked", s.Lanes)
		}
		r.state.evict()
		r.fill(3, 3)
		r.await(9)
		r.stop()
	})
}

// slowRenew answers renewals with what was ours some time ago.
type slowRenew struct {
	*memState
	delay time.Duration
}

func (s *slowRenew) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	owned, err := s.memState.Renew(ctx, instance, lease)
	time.Sleep(s.delay)
	return owned, err
}

// A lane that is acquired while a renewal is under way is not in its answer,
// and yet not lost.
func TestG3_LanesAcquiredDuringARenewalStay(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		if _, err := r.state.Acquire(context.Background(), "b", "orders", all, adapters.Slots); err != nil {
			r.t.Fatal(err)
		}
		r.start(r.route(func(rt *Route) { rt.State = &slowRenew{r.state, time.Second} }))
		time.Sleep(DefaultLease/4 + 10*time.Millisecond) // a renewal is under way
		r.state.evict()
		time.Sleep(600 * time.Millisecond)
		r.state.mu.Lock()
		epoch := r.state.lanes[adapters.LaneRef{Route: "orders"}].Epoch
		r.state.mu.Unlock()
		time.Sleep(5 * time.Second)
		r.state.mu.Lock()
		if now := r.state.lanes[adapters.LaneRef{Route: "orders"}].Epoch; now != epoch || epoch != 2 {
			t.Errorf("the lane was acquired again: epoch %d, then %d, want 2", epoch, now)
		}
		r.state.mu.Unlock()
		r.stop()
	})
}

// Nothing is sent once too little of the lease is left; a renewal lets it go on.
func TestG3_NothingIsSentAtTheEndOfTheLease(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		store := &mortal{memState: r.state}
		r.start(r.route(func(rt *Route) { rt.State = store }))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		store.dead.Store(true)
		time.Sleep(DefaultLease)
		r.fill(3, 3)
		time.Sleep(5 * time.Second)
		if n := r.dest.count(); n != 0 {
			t.Errorf("%d were sent after the lease", n)
		}
		store.dead.Store(false)
		r.await(9)
		r.stop()
		r.checkOrdered(3, 3)
	})
}

// late is a state store whose calls can be made to last.
type late struct {
	*memState
	settling func()                    // before a settle is carried out
	loading  func()                    // before parked groups are read
	acquired func(route string)        // after lanes were acquired
	hang     func(ctx context.Context) // in ParkedGroups
}

func (l *late) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	if l.settling != nil {
		l.settling()
	}
	return l.memState.Settle(ctx, all)
}

func (l *late) ParkedGroups(ctx context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	if l.loading != nil {
		l.loading()
	}
	if l.hang != nil {
		l.hang(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return l.memState.ParkedGroups(ctx, route, slots)
}

func (l *late) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	out, err := l.memState.Acquire(ctx, instance, route, slots, most)
	if l.acquired != nil {
		l.acquired(route)
	}
	return out, err
}

// steal makes another instance the owner of all lanes.
func (m *memState) steal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, l := range m.lanes {
		l.Epoch++
		m.owner[ref] = "b"
	}
}

func (m *memState) epoch(slot int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lanes[adapters.LaneRef{Route: "orders", Slot: slot}].Epoch
}

// A settle that an old session began must not end the next session of the lane.
func TestG3_AFencedSettleOfAnOldSessionLeavesTheNextAlone(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var slow atomic.Bool
		store := &late{memState: r.state, settling: func() {
			if slow.CompareAndSwap(true, false) {
				time.Sleep(5 * time.Second)
			}
		}}
		r.start(r.route(func(rt *Route) { rt.State = store }))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(time.Second)
		slow.Store(true)
		r.fill(3, 3)
		r.await(9)
		r.until("a slow settle", func() bool { return !slow.Load() })
		r.state.steal()
		r.until("the lanes are lost", func() bool { return r.router.Stats()[0].Lanes == 0 })
		r.state.evict()
		r.until("the lanes are ours again", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		before := r.state.epoch(adapters.SlotOf("g0", ""))
		time.Sleep(20 * time.Second)
		if now := r.state.epoch(adapters.SlotOf("g0", "")); now != before {
			t.Errorf("the lane was acquired again: epoch %d, then %d", before, now)
		}
		r.stop()
	})
}

// What a renewal began to ask before a lane changed hands must not end the next
// session of the lane.
func TestG3_ARenewalOfAnOldSessionLeavesTheNextAlone(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(func(rt *Route) { rt.State = &slowRenew{r.state, time.Second} }))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		time.Sleep(DefaultLease/4 - 50*time.Millisecond)
		r.state.steal()
		time.Sleep(100 * time.Millisecond) // a renewal is under way
		r.fill(3, 3)
		r.until("a lane is lost", func() bool { return r.router.Stats()[0].Lanes < adapters.Slots })
		r.state.evict()
		slot := adapters.SlotOf("g0", "")
		lane := r.router.routes.All()[0].Lanes[slot]
		old := lane.Session()
		r.until("the lane is ours again", func() bool { s := lane.Session(); return s != nil && s != old })
		before := r.state.epoch(slot)
		time.Sleep(20 * time.Second)
		if now := r.state.epoch(slot); now != before {
			t.Errorf("the lane was acquired again: epoch %d, then %d", before, now)
		}
		r.stop()
	})
}

// The routes of one state store cannot run: those of another go on.
func TestG6_RoutesOfAnotherStateStoreGoOn(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		broken := newMemState()
		r.start(r.route(func(rt *Route) { rt.State = broken }))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		r.stop()
		for _, st := range broken.lanes {
			st.Table, st.New = adapters.Table{Cluster: "elsewhere"}, false
		}
		r.fill(2, 5)
		other := &receiver{ordering: wave}
		r.start(r.route(func(rt *Route) { rt.State = broken }),
			r.route(func(rt *Route) { rt.Name, rt.Destination = "other", other }))
		r.until("all of the other", func() bool { return other.count() == 10 })
		time.Sleep(time.Minute)
		select {
		case err := <-r.done:
			t.Fatal(err)
		default:
		}
		if s := r.router.Stats()[0].Stopped; !strings.Contains(s, "rebase") {
			t.Errorf("stopped because %q", s)
		}
		r.state.mu.Lock()
		for _, st := range r.state.lanes {
			st.Table.Cluster = "elsewhere"
		}
		r.state.mu.Unlock()
		r.state.steal()
		r.state.evict()
		if err := <-r.done; err == nil || !strings.Contains(err.Error(), `"orders"`) || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("when none can run: %v", err)
		}
	})
}

// Two instances that each own some rows of a lane of order global do not wait for
// each other.
func TestG6_ALaneThatIsSharedOutIsWorkedAgain(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		for slot := range adapters.Slots {
			instance := []string{"a", "b"}[slot%2]
			if _, err := a.state.Acquire(t.Context(), instance, "orders", []int{slot}, adapters.Slots); err != nil {
				t.Fatal(err)
			}
		}
		a.fill(3, 3)
		global := func(rt *Route) { rt.Order = adapters.OrderGlobal }
		a.start(a.route(global))
		b.start(b.route(global))
		a.until("all", func() bool { return a.dest.count()+b.dest.count() == 9 })
		a.stop()
		b.stop()
	})
}

// blocked is a state store that answers nothing.
type blocked struct{ adapters.StateStore }

func (b blocked) Migrate(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAStopBeforeItBeganIsNoFailure(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(func(rt *Route) { rt.State = blocked{r.state} }))
		time.Sleep(time.Second)
		r.stop() // fails the test when Run returns an error
	})
}
