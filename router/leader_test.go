package router

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// scepter is an advisory lock that locks of several instances are for.
type scepter struct {
	mu   sync.Mutex
	held *memLock
}

// memLock is one instance's connection to it.
type memLock struct {
	scepter *scepter
	lost    chan struct{}
}

func (l *memLock) TryLock(context.Context) (<-chan struct{}, error) {
	l.scepter.mu.Lock()
	defer l.scepter.mu.Unlock()
	if l.scepter.held != nil {
		return nil, nil
	}
	l.scepter.held, l.lost = l, make(chan struct{})
	return l.lost, nil
}

func (l *memLock) Unlock() {
	l.scepter.mu.Lock()
	defer l.scepter.mu.Unlock()
	if l.scepter.held == l {
		l.scepter.held = nil
		close(l.lost)
	}
}

func (l *memLock) String() string { return "lock 7" }

func (l *memLock) holds() bool {
	l.scepter.mu.Lock()
	defer l.scepter.mu.Unlock()
	return l.scepter.held == l
}

// led are two routes of one source that has a leader.
func (r *rig) led(lock adapters.LeaderLock) []Route {
	lead := func(name string) Route {
		return r.route(func(rt *Route) {
			rt.Name, rt.Leader = name, "app"
			if lock != nil {
				rt.LeaderLock = lock
			}
		})
	}
	return []Route{lead("orders"), lead("bills")}
}

// All routes of a source with a leader are one instance's, and the other's when
// it leaves.
func TestG3_OneInstanceLeads(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		b := a.peer("b")
		a.config.Instance = "a"
		a.start(a.led(nil)...)
		b.start(b.led(nil)...)
		time.Sleep(5 * time.Second)
		x, y := a.state.lanesOf("a"), a.state.lanesOf("b")
		if len(x)+len(y) != 2 || x["orders"] != x["bills"] || y["orders"] != y["bills"] {
			t.Errorf("a owns %v, b %v", x, y)
		}
		first, second := a, b
		if len(y) > 0 {
			first, second = b, a
		}
		a.fill(5, 4)
		first.await(40)
		first.stop()
		a.fillFrom(5, 4, 8)
		second.await(40)
		second.stop()
		if n := a.dest.count() + b.dest.count(); n != 80 {
			t.Errorf("%d arrived, want each of 40 once for each of 2 routes", n)
		}
	})
}

// With a lock whoever holds it leads, and the others stand by: a process that
// knows nothing of our state, too.
func TestG3_TheHolderOfTheLockLeads(t *testing.T) {
	inBubble(t, wave, func(a *rig) {
		var s scepter
		stranger := &memLock{scepter: &s}
		if _, err := stranger.TryLock(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := a.peer("b")
		a.config.Instance = "a"
		locks := []*memLock{{scepter: &s}, {scepter: &s}}
		a.fill(5, 4)
		a.start(a.led(locks[0])...)
		b.start(b.led(locks[1])...)
		time.Sleep(5 * time.Second)
		if n := a.state.owned(); n != 0 {
			t.Errorf("%d lanes are owned while a stranger leads", n)
		}
		all, err := a.state.Instances(t.Context())
		if err != nil || len(all) != 2 || !strings.Contains(all[1].Routes[0].Waits, "another process holds the lock 7") {
			t.Errorf("the instances say %+v, %v", all, err)
		}
		stranger.Unlock()
		a.until("all", func() bool { return a.dest.count()+b.dest.count() == 40 })
		first, second := a, b
		if locks[1].holds() {
			first, second = b, a
		}
		first.stop()
		a.fillFrom(5, 4, 8)
		a.until("all of the rest", func() bool { return a.dest.count()+b.dest.count() == 80 })
		second.stop()
		if stranger.scepter.held != nil {
			t.Error("the lock was not given up")
		}
	})
}

// When the lock is lost the leader sends nothing more, at once, and what it had
// delivered is settled.
func TestG3_ADeposedLeaderStopsAtOnce(t *testing.T) {
	inBubble(t, group, func(a *rig) {
		var s scepter
		lock := &memLock{scepter: &s}
		a.dest.setFail(func(string, *message.Message) error { time.Sleep(50 * time.Millisecond); return nil })
		a.fill(30, 20)
		a.start(a.led(lock)...)
		a.await(300)
		s.mu.Lock() // the connection drops, and somebody else takes the lock
		s.held = &memLock{scepter: &s}
		close(lock.lost)
		s.mu.Unlock()
		time.Sleep(600 * time.Millisecond)
		stopped := a.dest.count() // with the batches that were being sent
		a.until("the lanes are released", func() bool { return a.state.owned() == 0 })
		time.Sleep(10 * time.Second)
		if n := a.dest.count(); n != stopped {
			t.Errorf("%d were delivered by an instance that did not lead", n-stopped)
		}
		s.mu.Lock()
		s.held = nil
		s.mu.Unlock()
		a.until("everything", func() bool { return len(a.dest.received()) == 30 && a.dest.count() >= 1200 })
		a.stop()
		if n := a.dest.count(); n > 1200+600 {
			t.Errorf("%d arrived, 1200 were written", n)
		}
	})
}
