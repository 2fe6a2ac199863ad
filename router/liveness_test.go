package router

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// lending counts the payloads that the engine was given and still refers to.
type lending struct {
	mu  sync.Mutex
	out []weak.Pointer[byte]
}

// lend returns a copy of a payload that is counted; nil: none is.
func (l *lending) lend(p []byte) []byte {
	if l == nil {
		return p
	}
	c := append(make([]byte, 0, len(p)+64), p...) // not tiny: those share what they are allocated in
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = append(l.out, weak.Make(&c[:1][0]))
	return c
}

// alive is how many of them are referred to.
func (l *lending) alive() int {
	runtime.GC()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = slices.DeleteFunc(l.out, func(p weak.Pointer[byte]) bool { return p.Value() == nil })
	return len(l.out)
}

// countPayloads has what the router gets counted from here on.
func (r *rig) countPayloads() *lending {
	l := &lending{}
	r.source.lending, r.state.lending = l, l
	return l
}

// What is dead, or parked, is kept in memory by nobody: 50 addresses with a message
// each that nobody takes.
func TestG7_G13_FailingAddressesKeepNoMessages(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		dead int
	}{
		"dead":   {errInjected, 50},
		"parked": {outbox.Transient(errInjected, time.Minute), 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, templated, func(r *rig) {
				lent := r.countPayloads()
				r.dest.setFail(func(string, *message.Message) error { return tt.err })
				for i := range 50 {
					r.addTo(fmt.Sprint("a", i), fmt.Sprint("g", i), fmt.Sprint("m", i))
				}
				r.start(r.route(nil))
				time.Sleep(5*time.Minute + 30*time.Second)
				if n := lent.alive(); n > 0 || len(r.parked()) != 50 {
					t.Errorf("%d payloads are referred to, %d messages parked", n, len(r.parked()))
				}
				if s := r.router.Stats()[0]; int(s.Dead) != tt.dead {
					t.Errorf("%d are dead, want %d", s.Dead, tt.dead)
				}
				r.stop()
			})
		})
	}
}

// Sessions that end while an address is down leave none of the messages behind that
// waited for it.
func TestG7_G13_APausedRouteKeepsNoMessages(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		lent := r.countPayloads()
		r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
		for i := range 8 {
			r.addTo("down", fmt.Sprint("g", i), fmt.Sprint("m", i))
		}
		r.start(r.route(nil))
		r.until("what failed waits for its address", func() bool { return len(r.router.routes.All()[0].HeldAttempts("down")) > 0 })
		r.pause(adapters.Pause{Route: "orders", By: "t"})
		r.until("the sessions have ended", func() bool { return r.state.owned() == 0 })
		time.Sleep(5 * time.Minute)
		if n := lent.alive(); n > 0 || len(r.router.Stats()[0].Down) != 1 {
			t.Errorf("%d payloads are referred to, %d addresses are down, want 0 and 1", n, len(r.router.Stats()[0].Down))
		}
		r.dest.setFail(nil)
		r.resume("")
		r.await(8)
		r.stop()
	})
}

// slowStore has something happen while parked messages are read.
type slowStore struct {
	*memState
	reading func() // before
	read    func() // after; nil: nothing
}

func (s *slowStore) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	s.reading()
	rows, err := s.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
	if s.read != nil {
		s.read()
	}
	return rows, err
}

// skipOne is an operator who skips a message, who is told that it was one.
func (r *rig) skipOne(id string) {
	r.t.Helper()
	step, err := r.state.ChangeParked(context.Background(),
		adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{ID: id}})
	if err != nil || step.Changed != 1 {
		r.t.Errorf("skipped %d, error %v", step.Changed, err)
	}
}

// An operator skips the last parked message of a group while a fresh one comes.
func TestG2_G13_SkippingTheLastOneWhileAFreshOneComes(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		var skip, join sync.Once
		store := &slowStore{memState: r.state,
			reading: func() { skip.Do(func() { r.skipOne("1") }) },
			read: func() {
				join.Do(func() {
					time.Sleep(DefaultLease / 2) // the command is known, and obeyed
					r.add("g", "2")
					time.Sleep(time.Second)
				})
			}}
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.UUID == "1" {
				return outbox.Transient(errInjected, 3*time.Second)
			}
			return nil
		})
		r.add("g", "1")
		r.start(r.route(func(rt *Route) { rt.State = store }))
		time.Sleep(3*time.Second + DefaultLease/2 + 2*time.Second)
		r.add("g", "3")
		r.await(2)
		time.Sleep(5 * time.Second)
		r.stop()
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"2", "3"}) {
			t.Errorf("got %q, want 2 and 3", got)
		}
		r.wantParked()
	})
}

// A group leaves the parking, with fresh messages behind its rows, when an operator
// changes something, and one of its rows fails again: what came before the command
// and after it stays in order.
func TestG2_G13_ACommandWhileAGroupLeavesTheParking(t *testing.T) {
	inBubble(t, adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1}, func(r *rig) {
		var c calls
		r.dest.setFail(func(_ string, msg *message.Message) error {
			c.note(msg.UUID)
			switch id := msg.UUID; {
			case id == "2":
				time.Sleep(20 * time.Second)
			case (id == "1" || id == "3") && c.of(id) == 1:
				return outbox.Transient(errInjected, 3*time.Second)
			}
			return nil
		})
		for _, id := range []string{"1", "2", "3"} {
			r.add("g", id)
		}
		r.start(r.route(nil))
		r.until("the second is being sent", func() bool { return c.of("2") == 1 })
		r.add("g", "4")
		time.Sleep(time.Second)
		r.state.mu.Lock()
		r.state.raise("orders")
		r.state.mu.Unlock()
		time.Sleep(DefaultLease/4 + time.Second) // when it is known
		r.add("g", "5")
		r.await(5)
		time.Sleep(5 * time.Second)
		r.stop()
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"1", "2", "3", "4", "5"}) {
			t.Errorf("got %q", got)
		}
		r.wantParked()
	})
}

// An operator skips a whole group of which a message hangs at the destination: when
// that has arrived the group goes on with what comes.
func TestG13_SkippingAGroupOfWhichOneHangs(t *testing.T) {
	inBubble(t, adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1}, func(r *rig) {
		release := make(chan struct{})
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.UUID == "1" {
				<-release
			}
			return nil
		})
		for i := range 6 {
			r.add("g", strconv.Itoa(i+1))
		}
		r.start(r.route(func(rt *Route) { rt.Window, rt.SendTimeout = 8, time.Hour }))
		r.until("they are parked", func() bool { return len(r.parked()) == 6 })
		for _, p := range r.parked() {
			r.skipOne(p.ID)
		}
		time.Sleep(DefaultLease/4 + time.Second) // when it is known
		close(release)
		r.await(1)
		r.add("g", "7")
		r.add("g", "8")
		r.await(3)
		time.Sleep(5 * time.Second)
		r.stop()
		if got := r.dest.received()["g"]; !slices.Equal(got, []string{"1", "7", "8"}) {
			t.Errorf("got %q", got)
		}
		r.wantParked()
	})
}

// An operator skips a message that is being attempted at this moment. It is
// not attempted again, and its group goes on.
func TestG13_ASkippedMessageUnderWayEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict error
		takes   time.Duration // an attempt, after the first
	}{
		"fails later":              {outbox.Transient(errInjected, 3*time.Second), 20 * time.Second},
		"fails before it is known": {outbox.Transient(errInjected, 3*time.Second), 20 * time.Millisecond},
		"short retries":            {outbox.Transient(errInjected, 500*time.Millisecond), 300 * time.Millisecond},
		"dies":                     {outbox.Permanent(errInjected), 20 * time.Second},
		"its address is down":      {outbox.Unavailable(errInjected, 0), 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, templated, func(r *rig) {
				var c calls
				r.dest.setFail(func(_ string, msg *message.Message) error {
					switch n := c.note(msg.UUID); {
					case msg.UUID != "1":
						return nil
					case n == 1:
						return outbox.Transient(errInjected, 2*time.Second)
					default:
						time.Sleep(tt.takes)
						return tt.verdict
					}
				})
				r.add("g", "1")
				r.start(r.route(nil))
				r.until("its second attempt", func() bool { return c.count() == 2 })
				r.skipOne("1")
				r.add("g", "2")
				time.Sleep(DefaultLease/4 + time.Second) // when it is known
				known := c.of("1")
				r.await(1)
				time.Sleep(2 * time.Minute)
				if n := c.of("1"); n > known {
					t.Errorf("it was attempted %d times after the command was known", n-known)
				}
				if s := r.router.Stats()[0]; s.ParkedNow != 0 || s.InFlight != 0 {
					t.Errorf("left: %+v", s)
				}
				r.stop()
				r.wantParked()
			})
		})
	}
}

// Messages of an address that is down, which came out of the parking and fill what
// there is for such, do not keep others in it.
func TestG6_G13_ParkedMessagesOfOtherAddressesComeBack(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		groups := sameLane(42)
		down := func(address string, _ *message.Message) error {
			if address == "down" {
				return outbox.Unavailable(errInjected, 0)
			}
			return nil
		}
		r.dest.setFail(down)
		for i := range 5 {
			for _, g := range groups[:40] {
				r.addTo("down", g, fmt.Sprint(g, "-", i))
			}
		}
		r.start(r.route(func(rt *Route) { rt.Window = 64 }))
		time.Sleep(time.Minute)
		later := once("later", outbox.Transient(errInjected, 10*time.Second))
		r.dest.setFail(func(address string, msg *message.Message) error {
			if err := later(address, msg); err != nil {
				return err
			}
			return down(address, msg)
		})
		r.addTo("up", groups[41], "later")
		began := time.Now()
		r.await(1)
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("what was due after 10 s came after %v", d)
		}
		r.dest.setFail(nil)
		r.await(201)
		r.stop()
		r.wantParked()
	})
}

// A group that is never quiet leaves the parking: what is fresh gets in line
// behind what came back.
func TestG13_ABusyGroupLeavesTheParking(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		r.dest.setFail(once("m0", outbox.Transient(errInjected, 3*time.Second)))
		store := &slowStore{memState: r.state, reading: func() { time.Sleep(100 * time.Millisecond) }}
		r.start(r.route(func(rt *Route) { rt.State = store }))
		n := 0
		write := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				r.add("g", fmt.Sprint("m", n))
				n++
			}
		}
		write(20 * time.Second)
		before := r.router.Stats()[0].Parked
		write(20 * time.Second)
		if now := r.router.Stats()[0].Parked; now > before {
			t.Errorf("%d more messages of the group were parked, 17 s after it could go on", now-before)
		}
		r.await(n)
		r.stop()
		for i, id := range r.dest.received()["g"] {
			if id != fmt.Sprint("m", i) {
				t.Fatalf("%s came as number %d", id, i)
			}
		}
		r.wantParked()
	})
}
