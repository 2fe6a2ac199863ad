package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// grave makes a poison destination of a rig and a route that uses it.
func grave(r *rig, change func(*Route)) (*receiver, Route) {
	dead := &receiver{ordering: group}
	return dead, r.route(func(rt *Route) {
		rt.Poison, rt.PoisonName = dead, "dead"
		if change != nil {
			change(rt)
		}
	})
}

// fatal makes the destination refuse these messages for good.
func fatal(ids ...string) func(string, *message.Message) error {
	return func(_ string, msg *message.Message) error {
		if slices.Contains(ids, msg.UUID) {
			return outbox.Permanent(errInjected)
		}
		return nil
	}
}

// ids of what a receiver got, sorted.
func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, msg := range r.got {
		out = append(out, msg.UUID)
	}
	slices.Sort(out)
	return out
}

func TestG1_PoisonDestinationHasTheMessageBeforeItIsDead(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(fatal("g1-2"))
		dead, route := grave(r, nil)
		dead.setFail(func(string, *message.Message) error {
			if got := brief(r.parked()); len(got) > 0 { // of the first try: nothing is written down yet
				t.Errorf("before the poison destination confirmed, parked were %q", got)
			}
			return nil
		})
		r.state.writing = func(s adapters.Settlement) {
			for _, p := range s.Park {
				if p.Status == adapters.ParkedDead && len(dead.ids()) == 0 {
					t.Errorf("%s is written down as dead, and the poison destination has not got it", p.ID)
				}
			}
		}
		r.fill(2, 5)
		r.start(route)
		r.await(9)
		r.until("one dead", func() bool { return len(r.parked()) == 1 })
		r.stop()
		r.wantParked("g1-2 dead 1")
		if got := dead.ids(); !slices.Equal(got, []string{"g1-2"}) {
			t.Fatalf("the poison destination got %q", got)
		}
		if got := r.dest.received()["g1"]; !slices.Equal(got, []string{"g1-0", "g1-1", "g1-3", "g1-4"}) {
			t.Errorf("group g1 got %q", got)
		}
	})
}

func TestPoisonCopySaysWhyAndWhereFrom(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(failing(&calls{}, only("g0", errors.New("no\nthanks"))))
		dead, route := grave(r, short)
		r.add("g0", "g0-0")
		r.add("g1", "g1-0")
		r.start(route)
		r.until("one dead", func() bool { return len(r.parked()) == 1 })
		r.stop()
		msg := dead.got[0]
		d, ok := outbox.DeathOf(msg.Metadata)
		if !ok || d.Reason != outbox.DeathExhausted || d.Attempts != 3 || d.Route != "orders" || time.Since(d.At) > time.Minute ||
			!strings.Contains(d.Error, "no thanks") {
			t.Errorf("died of %+v", d)
		}
		position, err := strconv.Atoi(msg.Metadata[outbox.MetaPosition])
		if msg.UUID != "g0-0" || err != nil || position != 1 || msg.Metadata[outbox.MetaGroup] != "g0" ||
			!strings.HasPrefix(msg.Metadata[outbox.MetaLane], "orders/") {
			t.Errorf("the copy is %s with %v", msg.UUID, msg.Metadata)
		}
		if p := r.parked()[0]; p.Metadata[outbox.MetaPoisonReason]+p.Metadata[lane.MetaDeath] != "" {
			t.Errorf("the parked message has another metadata than it entered with: %v", p.Metadata)
		}
	})
}

// An outage of the poison destination: nothing is dead, nothing is attempted
// again at the main address, others flow, and the poison destination is probed.
func TestG1_PoisonOutageKeepsMessagesInPlace(t *testing.T) {
	for name, failure := range map[string]error{
		"unavailable": outbox.Unavailable(errors.New("away"), 0), "transient": errors.New("500"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				var main, sends calls
				broken := fatal("g0-1", "g1-0", "g2-3")
				r.dest.setFail(func(address string, msg *message.Message) error {
					main.note(msg.UUID)
					return broken(address, msg)
				})
				dead, route := grave(r, nil)
				dead.setFail(failing(&sends, func(string) error { return failure }))
				r.fill(4, 6)
				r.start(route)
				r.await(1 + 0 + 3 + 6)
				time.Sleep(3 * time.Minute)
				r.fillFrom(4, 6, 8)
				r.await(1 + 0 + 3 + 8)
				time.Sleep(time.Minute)
				if n := sends.count(); n < 10 || n > 200 {
					t.Errorf("%d sends in 4 minutes of an outage", n)
				}
				for _, p := range r.parked() {
					if p.Status == adapters.ParkedDead || p.Status == adapters.ParkedHeld {
						t.Errorf("%s is %s, and the poison destination has not got it", p.ID, p.Status)
					}
					if p.ID == "g0-1" && (p.Attempts != 1 || !strings.Contains(p.LastError, `poison destination "dead"`) ||
						!strings.Contains(p.LastError, "injected")) {
						t.Errorf("the row of a message that is being dead-lettered says %d %q", p.Attempts, p.LastError)
					}
				}
				if s := r.router.Stats()[0]; s.Dead != 0 || len(s.Down) != 0 {
					t.Errorf("%d are dead, down are %v", s.Dead, s.Down)
				}
				dead.setFail(nil)
				r.await(32 - 3)
				r.until("three dead", func() bool { return len(r.parked()) == 3 })
				r.stop()
				r.wantParked("g0-1 dead 1", "g1-0 dead 1", "g2-3 dead 1")
				if got := dead.ids(); !slices.Equal(got, []string{"g0-1", "g1-0", "g2-3"}) {
					t.Errorf("the poison destination got %q", got)
				}
				for _, id := range []string{"g0-1", "g1-0", "g2-3"} {
					if n := main.of(id); n != 1 {
						t.Errorf("%s was attempted %d times at the main address", id, n)
					}
				}
			})
		})
	}
}

// After a restart in the middle of the outage the messages go to the poison
// destination, without another attempt at the main one.
func TestG1_PoisonOutageOutlastsARestart(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var main calls
		broken := fatal("g0-1", "g1-0")
		r.dest.setFail(func(address string, msg *message.Message) error {
			main.note(msg.UUID)
			return broken(address, msg)
		})
		dead, route := grave(r, func(rt *Route) { rt.Middleware[0] = middleware.Poison{Hold: true}.Middleware })
		dead.setFail(func(string, *message.Message) error { return outbox.Unavailable(errors.New("away"), 0) })
		r.fill(2, 3)
		r.start(route)
		r.await(1)
		time.Sleep(time.Minute)
		r.stop()
		r.start(route)
		time.Sleep(time.Minute)
		r.stop()
		dead.setFail(nil)
		r.start(route)
		r.until("two are held", func() bool {
			return len(slices.DeleteFunc(r.parked(), func(p adapters.Parked) bool { return p.Status != adapters.ParkedHeld })) == 2
		})
		if n := main.count(); n != 3 {
			t.Errorf("%d attempts at the main address, want 3", n)
		}
		if got := dead.ids(); !slices.Equal(got, []string{"g0-1", "g1-0"}) {
			t.Errorf("the poison destination got %q", got)
		}
		r.dest.setFail(nil)
		r.state.redrive()
		r.await(6)
		r.stop()
		r.checkOrdered(2, 3)
		r.wantParked()
	})
}

// An operator who redrives a message on its way to the poison destination wants
// it attempted; skipped it is gone without being dead.
func TestOperatorsCommandsReachMessagesBeingDeadLettered(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(fatal("g0-0", "g1-0"))
		dead, route := grave(r, nil)
		dead.setFail(func(string, *message.Message) error { return outbox.Unavailable(errors.New("away"), 0) })
		r.fill(2, 2)
		r.start(route)
		time.Sleep(time.Minute)
		r.stop()
		r.dest.setFail(nil)
		for ref, rows := range r.state.parked { // as redrive of a store does it
			for seq, p := range rows {
				if p.ID == "g0-0" {
					p.Attempts, p.NextAttemptAt = 0, time.Time{}
					r.state.parked[ref][seq] = p
				}
			}
		}
		_, _ = r.state.ChangeParked(context.Background(),
			adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{ID: "g1-0"}})
		r.start(route)
		r.await(3)
		r.stop()
		r.wantParked()
		if got := r.dest.ids(); !slices.Equal(got, []string{"g0-0", "g0-1", "g1-1"}) {
			t.Errorf("got %q", got)
		}
		if got := dead.ids(); len(got) > 0 {
			t.Errorf("the poison destination got %q", got)
		}
	})
}

// What the poison destination refuses for good is held: it may not be dead, and
// sending it again would change nothing.
func TestG1_PoisonRefusalHolds(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		var sends calls
		r.dest.setFail(fatal("g0-1"))
		dead, route := grave(r, nil)
		dead.setFail(failing(&sends, func(string) error { return outbox.Permanent(errors.New("413")) }))
		r.fill(2, 3)
		r.start(route)
		r.await(4)
		time.Sleep(2 * time.Minute)
		r.wantParked("g0-1 held 1", "g0-2 waiting 0")
		if p := r.parked()[0]; !strings.Contains(p.LastError, "413") || !strings.Contains(p.LastError, "injected") || sends.count() != 1 {
			t.Errorf("after %d sends: %q", sends.count(), p.LastError)
		}
		r.dest.setFail(nil)
		r.state.redrive()
		r.await(6)
		r.stop()
		r.checkOrdered(2, 3)
		r.wantParked()
	})
}

// Exhausted attempts are given back when it was the address that failed: nothing
// of that may be at the poison destination, which could not give it back.
func TestG10_OutageSendsNothingToThePoisonDestination(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(func(string, *message.Message) error { return errInjected })
		dead, route := grave(r, short)
		r.fill(6, 5)
		r.start(route)
		time.Sleep(time.Second)
		r.dest.setFail(nil)
		r.await(30)
		r.stop()
		r.checkOrdered(6, 5)
		if got := dead.ids(); len(got) > 0 {
			t.Errorf("the poison destination got %q", got)
		}
	})
}

// A poison destination that hangs holds its groups only, and a drain waits for it.
func TestG6_HangingPoisonDestination(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(fatal("g0-0"))
		dead, route := grave(r, func(rt *Route) { rt.Window = 16 })
		release := make(chan struct{})
		dead.setFail(func(string, *message.Message) error { <-release; return nil })
		r.fill(4, 200)
		r.start(route)
		r.await(600)
		if got := brief(r.parked()); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "dead") }) {
			t.Errorf("dead already: %q", got)
		}
		stopped := make(chan struct{})
		go func() { defer close(stopped); r.stop() }()
		time.Sleep(5 * time.Second)
		close(release)
		<-stopped
		r.state.mu.Lock()
		statuses := map[adapters.ParkedStatus]int{}
		for _, rows := range r.state.parked {
			for _, p := range rows {
				statuses[p.Status]++
			}
		}
		r.state.mu.Unlock()
		if statuses[adapters.ParkedDead] != 1 || len(dead.ids()) != 1 {
			t.Errorf("after the drain: %v, and the poison destination got %q", statuses, dead.ids())
		}
		r.start(route)
		r.await(799)
		r.stop()
		r.wantParked("g0-0 dead 1")
	})
}

// Random failures of both destinations and restarts: everything ends delivered
// or dead, what is dead is at the poison destination, once.
func TestG1_PoisonUnderRandomFailures(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		const groups, each = 4, 40
		var mu sync.Mutex
		turn := 0
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if n, _ := strconv.Atoi(msg.UUID[strings.IndexByte(msg.UUID, '-')+1:]); n%9 == 4 {
				return outbox.Permanent(errInjected)
			}
			return nil
		})
		dead, route := grave(r, func(rt *Route) { rt.Window = 32 })
		dead.setFail(func(string, *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if turn++; turn%3 > 0 {
				return outbox.Unavailable(errInjected, 0)
			}
			return nil
		})
		r.fill(groups, each)
		for range 4 {
			r.start(route)
			time.Sleep(time.Second)
			r.stop()
		}
		r.start(route)
		const deadEach = 4 // 4, 13, 22, 31
		r.until("all have ended", func() bool {
			time.Sleep(time.Second)
			rows := r.parked()
			return r.dest.count() == groups*(each-deadEach) && len(rows) == groups*deadEach &&
				!slices.ContainsFunc(rows, func(p adapters.Parked) bool { return p.Status != adapters.ParkedDead })
		})
		r.stop()
		var want []string
		for g := range groups {
			for n := 4; n < each; n += 9 {
				want = append(want, fmt.Sprintf("g%d-%d", g, n))
			}
		}
		slices.Sort(want)
		if got := dead.ids(); !slices.Equal(got, want) {
			t.Errorf("the poison destination got %q, want %q", got, want)
		}
	})
}

// The poison destination hangs: messages that do not die arrive.
func TestG6_APoisonDestinationThatHangsLeavesOthersAlone(t *testing.T) {
	inBubble(t, group, func(r *rig) {
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if strings.HasPrefix(msg.UUID, "bad") {
				return outbox.Permanent(errInjected)
			}
			return nil
		})
		dead, route := grave(r, func(rt *Route) { rt.Window = 128; rt.SendTimeout = 10 * time.Minute })
		hang := make(chan struct{})
		dead.setFail(func(string, *message.Message) error { <-hang; return nil })
		const bad, good = 16 * 200, 1000
		for i := range bad {
			r.add(fmt.Sprint("b", i), fmt.Sprint("bad", i))
		}
		for i := range good {
			r.add(fmt.Sprint("g", i), fmt.Sprint("m", i))
		}
		began := time.Now()
		r.start(route)
		r.await(good)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("it took %v", d)
		}
		close(hang)
		r.until("all dead", func() bool { return dead.count() == bad })
		r.stop()
	})
}

// What is behind a dead message does not pass it until its death is written: after a crash before that it would be tried again, and might
// arrive behind what has passed it.
func TestG2_NothingPassesADeathThatIsNotWritten(t *testing.T) {
	dies := func(_ string, msg *message.Message) error {
		if msg.UUID == "g0-0" {
			return outbox.Permanent(errInjected)
		}
		return nil
	}
	check := func(t *testing.T, r *rig, mend func()) {
		t.Helper()
		r.await(3) // of the other group
		time.Sleep(time.Minute)
		if got := r.dest.received()["g0"]; len(got) != 0 {
			t.Errorf("%v passed it", got)
		}
		mend()
		r.await(5)
		r.stop()
		if got := r.dest.received()["g0"]; !slices.Equal(got, []string{"g0-1", "g0-2"}) {
			t.Errorf("arrived %v, want what is behind it in order", got)
		}
	}
	t.Run("log", func(t *testing.T) {
		inBubble(t, group, func(r *rig) {
			r.dest.setFail(dies)
			r.start(r.route(nil))
			time.Sleep(time.Second) // its lanes are ours
			r.state.setFail(errInjected)
			r.fill(2, 3)
			check(t, r, func() { r.state.setFail(nil) })
			r.wantParked("g0-0 dead 1")
		})
	})
	t.Run("queue", func(t *testing.T) {
		inQueueBubble(t, group, func(r *queueRig) {
			r.dest.setFail(dies)
			r.fill(2, 3)
			var locks atomic.Bool
			locks.Store(true)
			r.table.locked = func(id string) bool { return id == "g0-0" && locks.Load() }
			r.begin(nil)
			check(t, r.rig, func() { locks.Store(false) })
			r.wantStatuses(map[string]int{"done": 5, "dead": 1})
		})
	})
}
