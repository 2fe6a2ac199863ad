package router

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/reading"
)

// polls returns how many fetches and reads the source saw since the last call.
func (m *memSource) polls() (fetches, reads int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches, reads = m.fetches, m.reads
	m.fetches, m.reads = 0, 0
	return fetches, reads
}

// An idle minute costs one query of 16 reads per poll, with one route or fifty.
func TestG9_OneQueryPerPoll(t *testing.T) {
	for _, n := range []int{1, 50} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				r.fill(20, 5)
				var routes []Route
				for i := range n {
					routes = append(routes, r.route(func(rt *Route) {
						rt.Name = fmt.Sprint("r", i)
						rt.Poll.Max = time.Second
						rt.Match = func(row *adapters.Row) bool { return i == 0 || strings.HasSuffix(row.ID, fmt.Sprint("-", i)) }
					}))
				}
				r.start(routes...)
				r.await(100)
				time.Sleep(10 * time.Second)
				r.source.polls()
				r.state.mu.Lock()
				settles := r.state.settles
				r.state.mu.Unlock()
				time.Sleep(time.Minute)
				if fetches, reads := r.source.polls(); fetches < 59 || fetches > 61 || reads != 16*fetches {
					t.Errorf("%d queries with %d reads in an idle minute, want 60 with 960", fetches, reads)
				}
				r.state.mu.Lock()
				if r.state.settles != settles {
					t.Errorf("%d settles in an idle minute, want none", r.state.settles-settles)
				}
				r.state.mu.Unlock()
				r.stop()
			})
		})
	}
}

// What comes in a steady stream is read in portions, not row by row.
func TestG9_AStreamIsReadInPortions(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		const n, each = 10_000, 100 * time.Microsecond
		r.start(r.route(nil))
		r.until("all lanes", func() bool { return r.router.Stats()[0].Lanes == adapters.Slots })
		for i := range n {
			r.add(fmt.Sprint("g", i%100), fmt.Sprint("m", i))
			time.Sleep(each)
		}
		r.await(n)
		r.source.mu.Lock()
		fetches := r.source.fetches
		r.source.mu.Unlock()
		if most := int(n*each/reading.Linger) * 3 / 2; fetches > most {
			t.Errorf("%d reads for %d rows in %v, want at most %d", fetches, n, n*each, most)
		}
		r.stop()
	})
}

// Lanes that drain a backlog are read up to common places, in order and to its end.
// Reads and waves take time of the bubble's, which passes only while everybody waits:
// which lanes have room when the next read is planned hardly depends on the machine. How
// messages gather in waves still does a little: about two of three reads come to a place.
func TestG2_LanesDrainABacklogInStep(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(400, 100)
		r.source.slow = func() { time.Sleep(time.Millisecond) }
		r.start(r.route(func(rt *Route) { rt.Window, rt.Destination = 512, slowWaves{r.dest, 300 * time.Microsecond} }))
		r.await(40_000)
		r.stop()
		if _, reads := r.source.polls(); r.source.reached < reads/4 {
			t.Errorf("%d of %d reads were to come to a place; want a quarter at least", r.source.reached, reads)
		}
		r.checkOrdered(400, 100)
	})
}

// A route whose destination hangs falls behind without holding up another one,
// and joins the shared read again when it has caught up.
func TestG6_AFullLaneDetachesAndRejoins(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		slow := &receiver{ordering: wave}
		release := make(chan struct{})
		slow.setFail(func(string, *message.Message) error { <-release; return nil })
		r.fill(20, 100)
		r.start(r.route(func(rt *Route) { rt.Window = 64 }),
			r.route(func(rt *Route) {
				rt.Name, rt.Destination, rt.Window, rt.SendTimeout, rt.Middleware = "slow", slow, 32, time.Hour, nil
			}))
		r.await(2000)
		r.fillFrom(20, 100, 200)
		r.await(4000)
		close(release)
		r.until("the slow one", func() bool { return slow.count() >= 4000 })
		time.Sleep(5 * time.Second)
		r.source.polls()
		time.Sleep(10 * time.Second)
		if fetches, reads := r.source.polls(); reads != 16*fetches {
			t.Errorf("%d reads in %d queries: the routes read apart", reads, fetches)
		}
		r.stop()
		r.checkOrdered(20, 200)
		r.dest = slow
		r.checkOrdered(20, 200)
	})
}

func TestG1_RoutesMatchApart(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		odd := &receiver{ordering: group}
		match := func(rest int) func(*adapters.Row) bool {
			return func(row *adapters.Row) bool { return row.Position%2 == int64(rest) }
		}
		r.fill(7, 101)
		r.start(r.route(func(rt *Route) { rt.Match = match(0) }),
			r.route(func(rt *Route) { rt.Name, rt.Destination, rt.Match, rt.Window = "odd", odd, match(1), 8 }))
		r.until("all", func() bool { return r.dest.count()+odd.count() == 707 })
		r.stop()
		for _, msg := range odd.got {
			if strings.ContainsAny(msg.Metadata[outbox.MetaPosition][len(msg.Metadata[outbox.MetaPosition])-1:], "02468") {
				t.Fatalf("%s is not odd", msg.UUID)
			}
		}
	})
}

// A route that starts at the end keeps the place where it first started, also
// when it is stopped at once and nothing was there to be delivered.
func TestG1_StartAtTheEnd(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		atEnd := func(rt *Route) { rt.Start.Kind = adapters.StartEnd }
		r.fill(3, 3)
		r.start(r.route(atEnd))
		time.Sleep(100 * time.Millisecond)
		r.stop()
		r.fillFrom(3, 3, 6) // nobody runs
		r.start(r.route(atEnd))
		r.await(9)
		time.Sleep(time.Second)
		r.stop()
		for g, ids := range r.dest.received() {
			if len(ids) != 3 || ids[0] != g+"-3" {
				t.Errorf("group %s: %v, want 3 to 5", g, ids)
			}
		}
	})
}

// A route that is added later catches up with reads of its own, while rows go on
// coming, and ends in the shared read.
func TestG9_ANewRouteCatchesUp(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		late := &receiver{ordering: wave}
		r.fill(20, 200)
		r.start(r.route(nil))
		r.await(4000)
		r.stop()
		writing := make(chan struct{})
		go func() {
			defer close(writing)
			for i := 200; i < 300; i++ {
				r.fillFrom(20, i, i+1)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		r.start(r.route(nil), r.route(func(rt *Route) { rt.Name, rt.Destination, rt.Window = "late", late, 64 }))
		r.await(6000)
		r.until("the late one", func() bool { return late.count() == 6000 })
		<-writing
		time.Sleep(2 * time.Second)
		r.source.polls()
		time.Sleep(10 * time.Second)
		if fetches, reads := r.source.polls(); reads != 16*fetches {
			t.Errorf("%d reads in %d queries: the routes read apart", reads, fetches)
		}
		r.stop()
		r.checkOrdered(20, 300)
		r.dest = late
		r.checkOrdered(20, 300)
	})
}

// watchBudget looks at the budget's use all the time and returns the most.
func (r *rig) watchBudget(stop <-chan struct{}) <-chan int64 {
	most := make(chan int64, 1)
	go func() {
		var m int64
		for {
			m = max(m, r.router.budget.Used.Load())
			select {
			case <-stop:
				most <- m
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return most
}

// Rows of 100 KiB stay within a budget of 1 MiB, and one more.
func TestG7_TheBudgetHolds(t *testing.T) {
	const size, limit = 100 << 10, 1 << 20
	for name, fault := range map[string]func() func(string, *message.Message) error{
		"delivered": func() func(string, *message.Message) error {
			return func(string, *message.Message) error { time.Sleep(5 * time.Millisecond); return nil }
		},
		"parked": func() func(string, *message.Message) error {
			return flaky(outbox.Transient(errInjected, 2*time.Second))
		},
	} {
		for _, order := range []adapters.OrderMode{adapters.OrderGroup, adapters.OrderGlobal} {
			t.Run(fmt.Sprint(name, "/", order), func(t *testing.T) {
				inBubble(t, group, func(r *rig) {
					r.config.Memory = limit
					r.dest.setFail(fault())
					r.fill(40, 5)
					for _, row := range r.source.rows {
						row.Payload = make([]byte, size)
					}
					r.start(r.route(func(rt *Route) { rt.Order = order }))
					stop := make(chan struct{})
					most := r.watchBudget(stop)
					r.await(200)
					time.Sleep(time.Second)
					close(stop)
					if m := <-most; m > limit+size+lane.WaitingOverhead+1024 {
						t.Errorf("the budget's use was %d at most, the limit is %d", m, limit)
					}
					r.stop()
					if used := r.router.budget.Used.Load(); used != 0 {
						t.Errorf("%d bytes were not given back", used)
					}
					r.checkOrdered(40, 5)
					r.wantParked()
				})
			})
		}
	}
}

// One route's destination is down and its backlog is larger than the memory:
// another route goes on.
func TestG6_ARouteThatIsDownLeavesMemoryToOthers(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.config.Memory = 1 << 20
		down := &receiver{ordering: wave}
		down.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		r.fill(50, 40)
		r.start(r.route(func(rt *Route) { rt.Name, rt.Destination = "down", down }), r.route(nil))
		r.await(2000)
		down.setFail(nil)
		r.until("the one that was down", func() bool { return down.count() == 2000 })
		r.stop()
		r.checkOrdered(50, 40)
		r.dest = down
		r.checkOrdered(50, 40)
	})
}
