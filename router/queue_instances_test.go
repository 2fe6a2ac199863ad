package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// releasing is an instance's connection to the state store. It sees to it that
// nothing of a lane is marked by the instance's claims when the lane is released, but rows whose result the table refuses.
type releasing struct {
	*memState
	queue *memQueue
}

func (s *releasing) Release(ctx context.Context, instance string, lanes []adapters.LaneRef) error {
	s.queue.mu.Lock()
	for claim, row := range s.queue.live {
		if s.queue.refused[claim] {
			continue
		}
		slot := adapters.SlotOf(row.Group, row.ID)
		if row.status == "processing" && row.token == claim.Token && slices.ContainsFunc(lanes, func(l adapters.LaneRef) bool { return l.Slot == slot }) {
			s.queue.complain("%s releases lane %d, of which it has claimed %s", instance, slot, row.ID)
		}
	}
	s.queue.mu.Unlock()
	return s.memState.Release(ctx, instance, lanes)
}

// joins starts an instance that shares the table and the receiver.
func (r *queueRig) joins(name string, change func(*Route)) *rig {
	p := r.peer(name)
	p.dest = r.dest
	q := r.table.open()
	p.start(r.from(q, func(rt *Route) {
		rt.State = &releasing{r.state, q}
		if change != nil {
			change(rt)
		}
	}))
	return p
}

// The lanes of a queue are spread within two seconds of an instance joining or
// leaving, under load, with messages that fail and claims that take their time:
// nothing is delivered twice or out of order, and what a claim brings for a lane that
// is handed over goes back before the lane does.
func TestG1_G2_G3_LanesOfAQueueMoveBetweenInstances(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inQueueBubble(t, o, func(r *queueRig) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(7, 7))
				r.table.delay = func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(random.IntN(20)) * time.Millisecond
				}
				slow := flaky(outbox.Transient(errInjected, 300*time.Millisecond)) // goes back on the way
				r.dest.setFail(func(address string, msg *message.Message) error {
					time.Sleep(time.Millisecond)
					return slow(address, msg)
				})
				n := 0
				more := func() {
					for i := n; i < n+10; i++ {
						for g := range 20 {
							r.put("", fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
						}
					}
					n += 10
				}
				names := []string{"a", "b", "c"}
				rigs := []*rig{r.joins("a", nil), nil, nil}
				for range 2 {
					for i, want := range [][]int{{8, 8}, {5, 5, 6}} {
						more()
						rigs[i+1] = r.joins(names[i+1], nil)
						r.spreadWithin(2*time.Second, names[:i+2], want...)
						more()
						time.Sleep(time.Second)
					}
					for i, want := range [][]int{{8, 8}, {16}} {
						more()
						rigs[2-i].stop()
						r.spreadWithin(2*time.Second, names[:2-i], want...)
					}
				}
				r.await(20 * n)
				time.Sleep(5 * time.Second)
				rigs[0].stop()
				r.checkOrdered(20, n)
				checkEachOnce(t, 20, n, r.dest)
				r.wantStatuses(map[string]int{"done": 20 * n})
			})
		})
	}
}

// spreadWithin waits until the route is spread, which may take so long.
func (r *queueRig) spreadWithin(limit time.Duration, instances []string, want ...int) {
	r.t.Helper()
	began := time.Now()
	r.spreadOver("orders", instances, want...)
	if d := time.Since(began); d > limit {
		r.t.Errorf("spreading over %v took %v", instances, d)
	}
}

// With a leader, a queue has one owner, and so it has while an instance of a
// former build runs, which announces every queue route as a whole: a rolling upgrade
// spreads the lanes when the last of those has gone.
func TestG2_AQueueHasOneOwnerWhileAnyInstanceWantsIt(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		leader := func(rt *Route) { rt.Leader = "app" }
		r.fill(20, 10)
		former := r.joins("a", leader)
		r.await(50)
		b, c := r.joins("b", nil), r.joins("c", nil)
		whole := true
		for range 200 {
			for _, id := range []string{"a", "b", "c"} {
				if n := r.state.lanesOf(id)["orders"]; n != 0 && n != adapters.Slots {
					whole = whole && id != "a" // b and c take one by one what a gives up together
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if !whole {
			t.Error("the instance that wants all lanes had a part of them")
		}
		r.spreadOver("orders", []string{"a", "b", "c"}, 0, 0, 16)
		former.stop()
		r.spreadOver("orders", []string{"b", "c"}, 8, 8)
		r.await(200)
		time.Sleep(time.Second)
		b.stop()
		c.stop()
		r.checkOrdered(20, 10)
		checkEachOnce(t, 20, 10, r.dest)
	})
}

// An instance dies with claims in every lane. The next owner of a lane begins with
// groups that the dead one had no rows of; a group with such rows waits for their claims to
// end, and then continues with those rows.
func TestG1_G2_ANextOwnerWaitsForTheClaimsOfADeadOne(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.table.timeout = 20 * time.Second
		timeout := func(rt *Route) { rt.Claims.Timeout, rt.Claims.Recover = 20*time.Second, time.Second }
		gone := r.table.open()
		r.fill(10, 4)
		claimed, err := gone.Claim(t.Context(), adapters.ClaimRequest{Slots: allSlots(), Limit: 20, PerGroup: 2, Bytes: 1 << 20,
			Match: func(*adapters.Row) bool { return true }})
		if err != nil || len(claimed) != 20 {
			t.Fatalf("claimed %d rows, %v", len(claimed), err)
		}
		began := time.Now()
		for i := range 4 {
			for g := 10; g < 20; g++ {
				r.put("", fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
			}
		}
		a, b := r.joins("a", timeout), r.joins("b", timeout)
		r.await(40)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the other groups took %v", d)
		}
		time.Sleep(10 * time.Second)
		if n := r.dest.count(); n != 40 {
			t.Errorf("%d were delivered before the claims of the dead instance had ended, want 40", n)
		}
		r.await(80)
		if d := time.Since(began); d > 25*time.Second {
			t.Errorf("what the dead instance had claimed took %v, want about the timeout of 20 s", d)
		}
		a.stop()
		b.stop()
		r.checkOrdered(20, 4)
		checkEachOnce(t, 20, 4, r.dest)
	})
}

// allSlots are all lanes.
func allSlots() []int {
	out := make([]int, adapters.Slots)
	for i := range out {
		out[i] = i
	}
	return out
}
