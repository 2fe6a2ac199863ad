package router

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// heard is how long instances may take to obey a pause.
const heard = 2 * time.Second

// ofGroup counts the messages of a group that arrived.
func ofGroup(group string, receivers ...*receiver) (n int) {
	for _, rc := range receivers {
		rc.mu.Lock()
		for _, msg := range rc.got {
			if strings.HasPrefix(msg.UUID, group+"-") {
				n++
			}
		}
		rc.mu.Unlock()
	}
	return n
}

func (r *rig) resumeGroup(group string) {
	r.t.Helper()
	if ok, err := r.state.Resume(context.Background(), adapters.Pause{Route: "orders", Group: group}); err != nil || !ok {
		r.t.Fatalf("resume: %v, %v", ok, err)
	}
}

// A group that is paused under load, while messages fail and lanes change hands, delivers nothing from
// two seconds on, and others go on; when it is resumed everything arrives once, in order.
func TestG2_G3_G13_APausedGroupWaits(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(a *rig) {
				b := a.peer("b")
				a.config.Instance = "a"
				soon, late := flaky(outbox.Transient(errInjected, 300*time.Millisecond)), flaky(outbox.Transient(errInjected, 1500*time.Millisecond))
				fail := func(address string, msg *message.Message) error {
					time.Sleep(time.Millisecond)
					if strings.HasSuffix(msg.UUID, "4") {
						return late(address, msg)
					}
					return soon(address, msg)
				}
				a.dest.setFail(fail)
				b.dest.setFail(fail)
				small := func(rt *Route) { rt.Window = 64 }
				a.start(a.route(small))
				b.start(b.route(small))
				for i := range 6 {
					g := fmt.Sprintf("g%d", i)
					a.fillFrom(10, 20*i, 20*i+10)
					time.Sleep(time.Duration(70*i) * time.Millisecond)
					a.pause(adapters.Pause{Route: "orders", Group: g, By: "t"})
					time.Sleep(heard)
					rested := ofGroup(g, a.dest, b.dest)
					a.fillFrom(10, 20*i+10, 20*i+20)
					if i%2 == 1 {
						b.stop()
						time.Sleep(time.Second)
						b.start(b.route(small))
					}
					others := 9 * 20 * (i + 1) // what was paused before has arrived
					a.until("the others", func() bool { return a.dest.count()+b.dest.count()-ofGroup(g, a.dest, b.dest) >= others })
					time.Sleep(5 * time.Second)
					if n := ofGroup(g, a.dest, b.dest); n != rested {
						t.Errorf("round %d: %d of the group were delivered while it was paused", i, n-rested)
					}
					a.resumeGroup(g)
					a.until("all", func() bool { return a.dest.count()+b.dest.count() >= 200*(i+1) })
				}
				time.Sleep(5 * time.Second)
				a.stop()
				b.stop()
				checkEachOnce(t, 10, 120, a.dest, b.dest)
				a.wantParked()
			})
		})
	}
}

// What operators do to the head of a paused group, and a move of the route, change nothing about the pause; a
// restart neither.
func TestG2_G13_CommandsOnAPausedGroup(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		broken := true
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if broken && (msg.UUID == "g0-0" || msg.UUID == "g0-1") {
				return outbox.Transient(errInjected, time.Hour)
			}
			return nil
		})
		r.fill(2, 5)
		r.start(r.route(nil))
		r.await(5)
		r.pause(adapters.Pause{Route: "orders", Group: "g0"})
		time.Sleep(heard)
		broken = false
		r.redriveOne("g0-0")
		time.Sleep(10 * time.Second)
		r.skipOne("g0-0")
		time.Sleep(10 * time.Second)
		r.stop()
		r.start(r.route(nil))
		r.fillFrom(2, 5, 8)
		r.await(8)
		time.Sleep(10 * time.Second)
		if n := ofGroup("g0", r.dest); n != 0 {
			t.Errorf("%d of the paused group were delivered", n)
		}
		r.resumeGroup("g0")
		r.await(15)
		time.Sleep(5 * time.Second)
		r.stop()
		var got []string
		for _, msg := range r.dest.got {
			if strings.HasPrefix(msg.UUID, "g0-") {
				got = append(got, msg.UUID)
			}
		}
		if want := "g0-1 g0-2 g0-3 g0-4 g0-5 g0-6 g0-7"; strings.Join(got, " ") != want {
			t.Errorf("delivered %v, want %s", got, want)
		}
		r.wantParked()
	})
}

// A paused group whose address is down, or whose message is being sent, is not sent again when the address is back.
func TestG2_APausedGroupOfAnAddressThatIsBack(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.dest.setFail(func(address string, _ *message.Message) error {
			time.Sleep(100 * time.Millisecond)
			if address == "a" && down.Load() {
				return outbox.Unavailable(errInjected, 0)
			}
			return nil
		})
		r.addTo("a", "g0", "g0-0")
		r.addTo("a", "g0", "g0-1")
		r.addTo("a", "g1", "g1-0")
		r.start(r.route(nil))
		r.until("the address is down", func() bool { return len(r.router.Stats()[0].Down) == 1 })
		r.pause(adapters.Pause{Route: "orders", Group: "g0"})
		time.Sleep(heard)
		down.Store(false)
		r.await(1)
		time.Sleep(30 * time.Second)
		if n := ofGroup("g0", r.dest); n != 0 {
			t.Errorf("%d of the paused group were delivered", n)
		}
		r.resumeGroup("g0")
		r.await(3)
		r.stop()
		r.checkOrdered(1, 2)
	})
}

// Rows of a paused group of a queue stay in its table, marked as waiting, and those of other groups are delivered.
func TestG2_G3_APausedGroupOfAQueueStaysInItsTable(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.dest.setFail(func(string, *message.Message) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		r.fill(5, 100)
		r.begin(func(rt *Route) { rt.Claims.InMemory = 100 })
		r.await(20)
		r.pause(adapters.Pause{Route: "orders", Group: "g3"})
		time.Sleep(heard)
		rested := ofGroup("g3", r.dest)
		r.until("the others", func() bool { return r.dest.count()-ofGroup("g3", r.dest) == 400 })
		time.Sleep(time.Minute)
		if n := ofGroup("g3", r.dest); n != rested || n == 100 {
			t.Errorf("%d of the group were delivered, %d while it was paused", n, n-rested)
		}
		r.wantStatuses(map[string]int{"done": 400 + rested, "pending": 100 - rested})
		r.resumeGroup("g3")
		r.await(500)
		r.stop()
		r.checkOrdered(5, 100)
		r.wantStatuses(map[string]int{"done": 500})
	})
}

// A message that is being sent when its group is paused, and fails, is not sent again before the group is resumed.
func TestG2_AFailedMessageOfAPausedGroupWaits(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		var c calls
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if c.note(msg.UUID); msg.UUID == "g0-0" && c.of("g0-0") == 1 {
				time.Sleep(5 * time.Second)
				return outbox.Transient(errInjected, 300*time.Millisecond)
			}
			return nil
		})
		r.fill(1, 2)
		r.start(r.route(nil))
		time.Sleep(time.Second)
		r.pause(adapters.Pause{Route: "orders", Group: "g0"})
		time.Sleep(30 * time.Second)
		if n := c.of("g0-0") + c.of("g0-1"); n != 1 {
			t.Errorf("%d attempts of the paused group, want the one that was under way", n)
		}
		r.resumeGroup("g0")
		r.await(2)
		r.stop()
		r.checkOrdered(1, 2)
		r.wantParked()
	})
}

// secondLook is a queue one of whose claims looks at its rows twice, as they do that read page by page or wait for a lock in between. What the
// first look was refused is passed over.
type secondLook struct {
	*memQueue
	between chan func() // called by a claim that finds one here
}

func (q secondLook) Claim(ctx context.Context, c adapters.ClaimRequest) ([]*adapters.Row, error) {
	select {
	case between := <-q.between:
		match, refused := c.Match, map[string]bool{}
		for _, row := range q.waiting() {
			refused[row.ID] = !match(row)
		}
		between()
		c.Match = func(row *adapters.Row) bool { return !refused[row.ID] && match(row) }
	default:
	}
	return q.memQueue.Claim(ctx, c)
}

// waiting are copies of the rows that wait.
func (q *queueTable) waiting() (rows []*adapters.Row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		if r.status == "pending" {
			row := r.Row
			rows = append(rows, &row)
		}
	}
	return rows
}

// A group is resumed while a claim is under way that has passed over rows of it: the claim takes none of what came later.
func TestG2_AGroupIsResumedDuringAClaim(t *testing.T) {
	inQueueBubble(t, group, func(r *queueRig) {
		r.pause(adapters.Pause{Route: "orders", Group: "g0"})
		q := secondLook{r.table.open(), make(chan func())}
		r.start(r.from(q, nil))
		time.Sleep(heard)
		r.fill(1, 5)
		q.between <- func() {
			for i := range 5 {
				r.put("", "g0", fmt.Sprintf("g0-%d", 5+i))
			}
			r.resumeGroup("g0")
			time.Sleep(heard)
		}
		r.await(10)
		r.stop()
		r.checkOrdered(1, 10)
		r.wantStatuses(map[string]int{"done": 10})
	})
}
