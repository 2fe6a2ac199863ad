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

// lanesOf is how many lanes of each route an instance owns.
func (m *memState) lanesOf(instance string) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for ref, o := range m.owner {
		if o == instance {
			out[ref.Route]++
		}
	}
	return out
}

// spreadOver waits until the instances own so many lanes of the route, in any order.
func (r *rig) spreadOver(route string, instances []string, want ...int) {
	r.t.Helper()
	r.until(fmt.Sprintf("route %s is spread over %v as %v", route, instances, want), func() bool {
		var got []int
		for _, id := range instances {
			got = append(got, r.state.lanesOf(id)[route])
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// Lanes are spread within two seconds of an instance joining or leaving, under
// load and with messages that fail, and nothing is delivered twice.
func TestG3_LanesMoveBetweenInstancesWithoutADuplicate(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(a *rig) {
				names := []string{"a", "b", "c"}
				rigs := []*rig{a, a.peer("b"), a.peer("c")}
				a.config.Instance = "a"
				slow := flaky(outbox.Transient(errInjected, 1200*time.Millisecond)) // parked on the way
				for _, r := range rigs {
					r.dest.setFail(func(address string, msg *message.Message) error {
						time.Sleep(time.Millisecond)
						return slow(address, msg)
					})
				}
				window := func(rt *Route) { rt.Window = 64 }
				a.start(a.route(window))
				n := 0
				more := func() {
					a.fillFrom(20, n, n+10)
					n += 10
				}
				for range 2 {
					for i, want := range [][]int{{8, 8}, {5, 5, 6}} {
						more()
						rigs[i+1].start(rigs[i+1].route(window))
						began := time.Now()
						a.spreadOver("orders", names[:i+2], want...)
						if d := time.Since(began); d > 2*time.Second {
							t.Errorf("after instance %d has joined it took %v", i+2, d)
						}
						more()
						time.Sleep(time.Second)
					}
					for i, want := range [][]int{{8, 8}, {16}} {
						more()
						rigs[2-i].stop()
						began := time.Now()
						a.spreadOver("orders", names[:2-i], want...)
						if d := time.Since(began); d > 2*time.Second {
							t.Errorf("after an instance has left it took %v", d)
						}
					}
				}
				total := func() (sum int) {
					for _, r := range rigs {
						sum += r.dest.count()
					}
					return sum
				}
				a.until("all", func() bool { return total() >= 20*n })
				time.Sleep(5 * time.Second)
				a.stop()
				checkEachOnce(t, 20, n, rigs[0].dest, rigs[1].dest, rigs[2].dest)
				a.wantParked()
			})
		})
	}
}

// An instance counts only for the routes that it runs, and not while it cannot.
func TestG6_ARouteGoesToThoseWhoCanRunIt(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		away := &unreachable{memSource: a.source}
		named := func(name string, src adapters.Source) func(*Route) {
			return func(rt *Route) { rt.Name, rt.Source = name, src }
		}
		a.start(a.route(nil), a.route(named("mine", a.source)), a.route(named("shared", away)))
		a.spreadOver("shared", []string{"a"}, 16)
		b.start(b.route(nil), b.route(named("shared", b.source)))
		both := []string{"a", "b"}
		a.spreadOver("orders", both, 8, 8)
		a.spreadOver("shared", both, 8, 8)
		a.spreadOver("mine", both, 0, 16)
		// The source of one instance cannot be reached, which it notices when it
		// takes lanes: those are for the other then.
		away.set(errors.New("no route to host"))
		a.state.evict()
		a.until("b works the whole route", func() bool { return b.state.lanesOf("b")["shared"] == 16 })
		time.Sleep(10 * time.Second)
		if a.state.lanesOf("a")["shared"] != 0 || a.state.lanesOf("a")["mine"] != 16 {
			t.Errorf("a owns %v", a.state.lanesOf("a"))
		}
		away.set(nil)
		a.spreadOver("shared", both, 8, 8)
		b.stop()
		a.stop()
	})
}

// unreachable is a source that can be away.
type unreachable struct {
	*memSource
	mu   sync.Mutex
	away error
}

func (u *unreachable) set(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = err
}

func (u *unreachable) Table(ctx context.Context) (adapters.Table, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.away != nil {
		return adapters.Table{}, u.away
	}
	return u.memSource.Table(ctx)
}

// More instances than lanes: those without any stand by, and take over.
func TestMoreInstancesThanLanes(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		a.config.Instance = "i0"
		rigs, names := []*rig{a}, []string{"i0"}
		for i := 1; i < adapters.Slots+2; i++ {
			names = append(names, fmt.Sprint("i", i))
			rigs = append(rigs, a.peer(names[i]))
		}
		for _, r := range rigs {
			r.start(r.route(nil))
		}
		want := make([]int, len(rigs))
		for i := 2; i < len(want); i++ {
			want[i] = 1
		}
		a.spreadOver("orders", names, want...)
		a.fill(100, 2)
		total := func() (sum int) {
			for _, r := range rigs {
				sum += r.dest.count()
			}
			return sum
		}
		a.until("all", func() bool { return total() == 200 })
		for i := len(rigs) - 1; i > 0; i-- {
			rigs[i].stop()
		}
		a.spreadOver("orders", names[:1], 16)
		a.stop()
	})
}

// Routes that move as a whole have one owner each, and not all of them the same.
func TestG2_WholeRoutesHaveOneOwner(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		routes := func(r *rig) (out []Route) {
			for i := range 4 {
				out = append(out, r.route(func(rt *Route) { rt.Name, rt.Order = fmt.Sprint("g", i), adapters.OrderGlobal }))
			}
			return out
		}
		a.fill(5, 20)
		a.start(routes(a)...)
		time.Sleep(50 * time.Millisecond) // in the middle of it
		b.start(routes(b)...)
		a.until("two routes each", func() bool {
			x, y := a.state.lanesOf("a"), a.state.lanesOf("b")
			for _, n := range x {
				if n != adapters.Slots {
					return false
				}
			}
			return len(x) == 2 && len(y) == 2
		})
		a.until("all", func() bool { return a.dest.count()+b.dest.count() >= 400 })
		time.Sleep(5 * time.Second)
		a.stop()
		b.stop()
		if n := a.dest.count() + b.dest.count(); n != 400 {
			t.Errorf("%d arrived, want each of 100 once for each of 4 routes", n)
		}
	})
}

// After a restart of the state store everybody seems to be dead for a moment: no
// lane changes hands.
func TestG3_LanesStayWhenTheStateStoreRestarts(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		stores := []*numb{{memState: a.state}, {memState: a.state}}
		a.start(a.route(func(rt *Route) { rt.State = stores[0] }))
		b.start(b.route(func(rt *Route) { rt.State = stores[1] }))
		a.spreadOver("orders", []string{"a", "b"}, 8, 8)
		epochs := func() (sum int64) {
			for slot := range adapters.Slots {
				sum += a.state.epoch(slot)
			}
			return sum
		}
		before := epochs()
		for range 20 {
			for _, s := range stores {
				s.on.Store(true)
			}
			time.Sleep(1777 * time.Millisecond)
			for i, s := range stores {
				a.state.lose([]string{"a", "b"}[i])
				s.on.Store(false)
			}
			time.Sleep(5 * time.Second)
		}
		if now := epochs(); now != before {
			t.Errorf("%d times a lane changed hands", now-before)
		}
		b.stop()
		a.stop()
	})
}

// A route's rate is that of all instances together, shared out by lanes.
func TestARateIsSharedByLanes(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		throttled := func(rt *Route) {
			throttle := &middleware.Throttle{Rate: 100}
			rt.Middleware = append(stack(time.Second, 10), throttle.Middleware)
		}
		a.start(a.route(throttled))
		b.start(b.route(throttled))
		a.spreadOver("orders", []string{"a", "b"}, 8, 8)
		// One of each group: turns come in no order, and what has its turn would
		// have to wait for what is before it.
		a.fill(1600, 1)
		time.Sleep(10 * time.Second)
		if x, y := a.dest.count(), b.dest.count(); x < 400 || x > 520 || y < 400 || y > 520 {
			t.Errorf("in 10 s %d and %d were delivered, want about 500 each", x, y)
		}
		a.stop()
		b.stop()
	})
}

// Rows that are ours without our knowing are given up when they are not our share.
func TestG6_RowsOfAFormerLifeAreReleased(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		if _, err := a.state.Acquire(t.Context(), "a", "orders", all, adapters.Slots); err != nil {
			t.Fatal(err)
		}
		b.start(b.route(nil))
		time.Sleep(time.Second)
		a.start(a.route(nil)) // takes its share of them, and gives up the rest
		a.spreadOver("orders", []string{"a", "b"}, 8, 8)
		a.stop()
		b.stop()
	})
}
