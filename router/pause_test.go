package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/ownership"
)

func (m *memState) Pauses(_ context.Context, route string) ([]adapters.Pause, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.pauses), func(p adapters.Pause) bool { return route != "" && p.Route != route }), nil
}

// raise tells the owners of a route's lanes that there was a command.
func (m *memState) raise(route string) {
	for ref := range m.lanes {
		if ref.Route == route {
			m.counter[ref]++
		}
	}
}

func (m *memState) Pause(_ context.Context, p adapters.Pause) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.pauses, func(x adapters.Pause) bool { return x.Route == p.Route && x.Address == p.Address && x.Group == p.Group }) {
		return false, nil
	}
	p.At = time.Now()
	m.pauses = append(m.pauses, p)
	m.raise(p.Route)
	return true, nil
}

func (m *memState) Resume(_ context.Context, gone adapters.Pause) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.pauses)
	m.pauses = slices.DeleteFunc(m.pauses, func(p adapters.Pause) bool {
		return p.Route == gone.Route && p.Address == gone.Address && p.Group == gone.Group
	})
	m.raise(gone.Route)
	return len(m.pauses) < before, nil
}

func (m *memState) Release(_ context.Context, instance string, lanes []adapters.LaneRef) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ref := range lanes {
		if m.owner[ref] == instance {
			delete(m.owner, ref)
		}
	}
	return nil
}

func (m *memState) Move(_ context.Context, mv adapters.Move) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot, c := range mv.Cursors {
		ref := adapters.LaneRef{Route: mv.Route, Slot: slot}
		st := m.lanes[ref]
		st.New, st.Cursor, st.Beyond, st.Table = false, c, nil, mv.Table
		st.Epoch++
		delete(m.owner, ref)
	}
	return nil
}

func (m *memState) Forget(context.Context, string, bool, string) (adapters.DeletedRoute, error) {
	return adapters.DeletedRoute{}, nil
}

// owned is how many lanes have an owner.
func (m *memState) owned() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owner)
}

func (r *rig) pause(p adapters.Pause) {
	r.t.Helper()
	if _, err := r.state.Pause(context.Background(), p); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) resume(address string) {
	r.t.Helper()
	if ok, err := r.state.Resume(context.Background(), adapters.Pause{Route: "orders", Address: address, By: "t"}); err != nil || !ok {
		r.t.Fatalf("resume: %v, %v", ok, err)
	}
}

// A route that is paused and resumed under load loses nothing and delivers
// nothing twice, with an instance that works and one that stands by.
func TestG3_PauseAndResumeUnderLoad(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(a *rig) {
				b := a.peer("b")
				a.config.Instance = "a"
				slow := flaky(outbox.Transient(errInjected, 1200*time.Millisecond))
				fail := func(address string, msg *message.Message) error {
					time.Sleep(time.Millisecond)
					return slow(address, msg)
				}
				a.source.slow = func() { time.Sleep(30 * time.Millisecond) } // a pause comes in the middle of a read
				a.dest.setFail(fail)
				b.dest.setFail(fail)
				a.start(a.route(func(rt *Route) { rt.Window = 64 }))
				b.start(b.route(func(rt *Route) { rt.Window = 64 }))
				for i := range 8 {
					a.fillFrom(20, 10*i, 10*i+10)
					time.Sleep(time.Duration(100*i) * time.Millisecond)
					a.pause(adapters.Pause{Route: "orders", By: "t"})
					a.until("the lanes are released", func() bool { return a.state.owned() == 0 })
					rested := a.dest.count() + b.dest.count()
					time.Sleep(5 * time.Second)
					if n := a.dest.count() + b.dest.count(); n != rested {
						t.Errorf("%d were delivered while the route was paused", n-rested)
					}
					if st := a.router.Stats()[0]; st.Paused == nil || st.Lanes != 0 {
						t.Errorf("the paused route is shown as %+v", st)
					}
					a.resume("")
				}
				a.until("all", func() bool { return a.dest.count()+b.dest.count() >= 1600 })
				time.Sleep(5 * time.Second)
				a.stop()
				b.stop()
				if n := a.dest.count() + b.dest.count(); n != 1600 {
					t.Errorf("%d arrived, want each of 1600 once", n)
				}
				checkEachOnce(t, 20, 80, a.dest, b.dest)
				a.wantParked()
			})
		})
	}
}

// checkEachOnce checks that the receivers together got each message once, and
// each of them in order.
func checkEachOnce(t *testing.T, groups, n int, receivers ...*receiver) {
	t.Helper()
	seen := map[string]int{}
	for _, rc := range receivers {
		last := map[string]int{}
		for _, msg := range rc.got {
			seen[msg.UUID]++
			g, number, _ := strings.Cut(msg.UUID, "-")
			var i int
			if _, err := fmt.Sscan(number, &i); err != nil || i < last[g] {
				t.Errorf("%s came after number %d (%v)", msg.UUID, last[g], err)
			}
			last[g] = i
		}
	}
	for g := range groups {
		for i := range n {
			if id := fmt.Sprintf("g%d-%d", g, i); seen[id] != 1 {
				t.Errorf("%s arrived %d times", id, seen[id])
			}
		}
	}
}

func TestARouteThatIsPausedAtTheStartWaits(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.pause(adapters.Pause{Route: "orders"})
		r.fill(3, 3)
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name = "other" }))
		r.await(9)
		time.Sleep(5 * time.Second)
		if n := r.dest.count(); n != 9 {
			t.Errorf("%d arrived, want 9 of the route that is not paused", n)
		}
		r.resume("")
		began := time.Now()
		r.await(18)
		if d := time.Since(began); d > 2*ownership.AcquirePause {
			t.Errorf("it took %v to go on, want at most %v", d, 2*ownership.AcquirePause)
		}
		r.stop()
	})
}

// A stop in the middle of a pause settles what the pause has not.
func TestG3_StopWhileResting(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(func(string, *message.Message) error { time.Sleep(2 * time.Second); return nil })
		for i := range 20 {
			r.fillFrom(20, i, i+1)
			r.start(r.route(nil))
			time.Sleep(time.Second)
			r.pause(adapters.Pause{Route: "orders"})
			time.Sleep(DefaultLease/4 + time.Duration(i)*100*time.Millisecond)
			r.stop()
			r.resume("")
		}
		r.start(r.route(nil))
		r.await(400)
		time.Sleep(5 * time.Second)
		r.stop()
		r.checkOrdered(20, 20)
	})
}

// An address that is gone stays so over restarts, until it is resumed; then
// what waited for it arrives, in order.
func TestAGoneAddressStaysGoneUntilItIsResumed(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		gone := true
		asked := 0
		r.dest.setFail(func(address string, _ *message.Message) error {
			if address != "a" || !gone {
				return nil
			}
			asked++
			return outbox.Gone(errInjected)
		})
		for i := range 5 {
			r.addTo("a", "g0", fmt.Sprintf("g0-%d", i))
			r.addTo("b", "g1", fmt.Sprintf("g1-%d", i))
		}
		r.start(r.route(nil))
		r.await(5)
		r.until("the pause is written", func() bool { p, _ := r.state.Pauses(t.Context(), "orders"); return len(p) == 1 })
		time.Sleep(5 * time.Second)
		r.stop()
		gone = false
		r.start(r.route(nil))
		time.Sleep(30 * time.Second)
		if n := r.dest.count(); n != 5 || asked != 1 {
			t.Errorf("%d arrived, the gone address was asked %d times; want 5 and 1", n, asked)
		}
		if down := r.router.Stats()[0].Down; len(down) != 1 || !down[0].Gone || !strings.Contains(down[0].Cause, "injected") {
			t.Errorf("shown as %+v", down)
		}
		r.resume("a")
		r.await(10)
		time.Sleep(5 * time.Second)
		r.stop()
		r.checkOrdered(2, 5)
	})
}

func TestAnOperatorPausesAnAddress(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		r.pause(adapters.Pause{Route: "orders", Address: "a", By: "alice", Reason: "their maintenance"})
		time.Sleep(DefaultLease / 2)
		for i := range 5 {
			r.addTo("a", "g0", fmt.Sprintf("g0-%d", i))
			r.addTo("b", "g1", fmt.Sprintf("g1-%d", i))
		}
		time.Sleep(10 * time.Second)
		if n := r.dest.count(); n != 5 {
			t.Errorf("%d arrived, want the 5 of the other address", n)
		}
		r.resume("a")
		r.await(10)
		r.stop()
		r.checkOrdered(2, 5)
	})
}

// A seek under load: what the old owner settles later does not count, and the
// route goes on at the new place without a restart.
func TestG1_AMoveReplays(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(10, 20)
		r.start(r.route(nil))
		r.await(200)
		to := map[int]adapters.Cursor{}
		for slot := range adapters.Slots {
			to[slot] = adapters.Cursor{}
		}
		if err := r.state.Move(t.Context(), adapters.Move{Route: "orders", Cursors: to, Table: adapters.Table{Cluster: "mem"}}); err != nil {
			t.Fatal(err)
		}
		r.await(400)
		time.Sleep(5 * time.Second)
		r.stop()
		again := &receiver{got: r.dest.got[200:]}
		checkEachOnce(t, 10, 20, again)
	})
}

// A route that cannot run is tried again, so that an operator's rebase needs no
// restart.
func TestAStoppedRouteResumesWhenItsErrorIsFixed(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(2, 5)
		r.start(r.route(nil))
		r.await(10)
		r.stop()
		r.state.mu.Lock()
		for _, st := range r.state.lanes {
			st.Table.Cluster = "elsewhere"
		}
		r.state.mu.Unlock()
		r.fillFrom(2, 5, 10)
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name = "other"; rt.Destination = &receiver{ordering: wave} }))
		r.until("stopped", func() bool { return r.router.Stats()[0].Stopped != "" })
		if s := r.router.Stats()[0].Stopped; !strings.Contains(s, "outrider rebase orders") {
			t.Errorf("the reason is %q", s)
		}
		to := map[int]adapters.Cursor{}
		for slot := range adapters.Slots {
			to[slot] = adapters.Cursor{Position: 10}
		}
		if err := r.state.Move(t.Context(), adapters.Move{Route: "orders", Cursors: to, Table: adapters.Table{Cluster: "mem"}}); err != nil {
			t.Fatal(err)
		}
		r.await(20)
		if s := r.router.Stats()[0].Stopped; s != "" {
			t.Errorf("still stopped: %s", s)
		}
		r.stop()
		r.checkOrdered(2, 10)
	})
}

// The age of what is undelivered grows while nothing is delivered.
func TestTheAgeGrowsWhileNothingIsDelivered(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		r.add("g0", "g0-0")
		r.start(r.route(nil))
		for want := time.Second; want < 10*time.Minute; want *= 4 {
			time.Sleep(want)
			if got := r.router.Stats()[0].Oldest; got < want {
				t.Errorf("the oldest is %v old, want at least %v", got, want)
			}
		}
		r.dest.setFail(nil)
		r.await(1)
		r.until("nothing waits", func() bool { return r.router.Stats()[0].Oldest == 0 })
		r.stop()
	})
}

// What a read yields after its session has begun to stop is not taken, so the
// cursor must not pass it: readers go on while a paused route's sessions stop.
func TestG1_AStoppingSessionPassesNothing(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		s := r.router.routes.All()[0].Lanes[3].Session()
		str := s.Streams()[0]
		s.Stop(context.Background())
		before := lane.Inspect(s).Settled[0]
		row := &adapters.Row{ID: "x", Slot: 3, Position: 7, Page: &adapters.Page{From: str.Fetched}}
		s.Accept([]lane.Arrival{{Stream: str, Row: row, Matched: true}})
		str.MoveTo(adapters.Cursor{Position: 9}, 1, true, true)
		if settled := lane.Inspect(s).Settled[0]; settled != before || str.Fetched != before {
			t.Errorf("it passed from %+v to %+v, settled %+v", before, str.Fetched, settled)
		}
		r.stop()
	})
}

// A route that is paused while its lanes are still being taken, and whose lanes
// take long to finish, comes to rest with all of them.
func TestAPauseWhileLanesAreTakenRestsAllOfThem(t *testing.T) {
	inBubble(t, adapters.Ordering{MaxMessages: 1}, func(r *rig) { // more in a request take longer than a drain may
		store := &late{memState: r.state, loading: func() { time.Sleep(time.Second) }}
		r.dest.setFail(func(string, *message.Message) error { time.Sleep(20 * time.Second); return nil })
		r.fill(50, 1)
		r.start(r.route(func(rt *Route) { rt.State = store }))
		r.until("lanes are being taken", func() bool { return r.state.owned() > 5 })
		if n := r.router.Stats()[0].Lanes; n > 0 {
			t.Fatalf("%d lanes are at work already", n)
		}
		r.pause(adapters.Pause{Route: "orders"})
		r.until("at rest", func() bool { return r.router.Stats()[0].Lanes == 0 && r.state.owned() == 0 })
		n := r.dest.count()
		time.Sleep(time.Minute)
		if now := r.dest.count(); now != n || r.state.owned() != 0 {
			t.Errorf("%d were delivered while the route was paused, %d lanes are owned", now-n, r.state.owned())
		}
		r.resume("")
		r.await(50)
		r.stop()
		r.checkOrdered(50, 1)
	})
}

// A pause that is written while lanes are being acquired is obeyed at once.
func TestAPauseDuringAcquireStartsNothing(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		once := false
		store := &late{memState: r.state, acquired: func(string) {
			if !once {
				once = true
				r.pause(adapters.Pause{Route: "orders"})
			}
		}}
		r.fill(5, 1)
		r.start(r.route(func(rt *Route) { rt.State = store }))
		time.Sleep(10 * time.Second)
		if n := r.dest.count(); n != 0 || r.state.owned() != 0 {
			t.Errorf("%d were delivered while the route was paused; %d lanes are owned", n, r.state.owned())
		}
		r.resume("")
		r.await(5)
		r.stop()
	})
}
