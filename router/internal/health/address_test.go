package health

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

var errInjected = errors.New("injected")

// message is a message of a lane: groups are named by one letter, the messages of a group are numbered.
type message struct {
	group   string
	number  int
	probes  int
	gone    bool // it has left its lane
	reruns  int
	charges int
}

func (m *message) Identity() string           { return m.group }
func (m *message) Precedes(o *message) bool   { return m.group == o.group && m.number < o.number }
func (m *message) FailProbe() bool            { m.probes++; return m.probes == 3 }
func (m *message) Charge(c []string) []string { m.charges++; return append(c, m.group) }

func (m *message) Rerun() bool {
	if m.gone {
		return false
	}
	m.reruns++
	return true
}

type rig struct {
	*Addresses[*message, string]
	opened int
	a, b   *message
}

func newRig() *rig {
	r := &rig{a: &message{group: "a"}, b: &message{group: "b"}}
	r.Addresses = New[*message, string](Config{Route: "orders", Log: func() *slog.Logger { return slog.New(slog.DiscardHandler) },
		Redact: func(a string) string { return a }, Opened: func() { r.opened++ }})
	return r
}

func (r *rig) fail(m *message) (bool, []string) {
	return r.Failed("main", m, time.Now(), 0, errInjected)
}

func (r *rig) unavailable(m *message, v outbox.Verdict) bool {
	v.Err = errInjected
	_, gone := r.Unavailable("main", m, time.Now(), v, false)
	return gone
}

// state names the state of the address as ARCHITECTURE.md does.
func (r *rig) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch a := r.addresses["main"]; {
	case a == nil:
		return "works"
	case a.gone:
		return "gone"
	case !a.down:
		return "suspect"
	case a.probe != nil:
		return "probing"
	case a.open:
		return "open"
	}
	return "down"
}

func pauses(address string) []adapters.Pause { return []adapters.Pause{{Address: address, By: "ann"}} }

// Each transition of an address in ARCHITECTURE.md.
func TestG10_TheStatesOfAnAddress(t *testing.T) {
	for name, steps := range map[string][]struct {
		do   func(*rig)
		want string
	}{
		"one group fails, then is delivered": {
			{func(r *rig) { r.fail(r.a); r.fail(r.a) }, "suspect"},
			{func(r *rig) { r.Delivered("main") }, "works"},
		},
		"two groups fail; the probe fails, and the next is delivered": {
			{func(r *rig) { r.fail(r.a); r.fail(r.b) }, "down"},
			{func(*rig) { time.Sleep(FirstProbe) }, "open"},
			{func(r *rig) { r.Allow("main", r.b) }, "probing"},
			{func(r *rig) { r.fail(r.b) }, "down"},
			{func(*rig) { time.Sleep(FirstProbe) }, "down"},
			{func(*rig) { time.Sleep(FirstProbe) }, "open"},
			{func(r *rig) { r.Allow("main", r.b) }, "probing"},
			{func(r *rig) { r.Delivered("main") }, "works"},
		},
		"the probe is skipped": {
			{func(r *rig) { r.unavailable(r.a, outbox.Verdict{}); time.Sleep(FirstProbe) }, "open"},
			{func(r *rig) { r.Allow("main", r.a) }, "probing"},
			{func(r *rig) { r.Concluded(r.a) }, "down"},
			{func(*rig) { time.Sleep(FirstProbe) }, "open"},
		},
		"the probe leaves its lane": {
			{func(r *rig) { r.unavailable(r.a, outbox.Verdict{}); time.Sleep(FirstProbe) }, "open"},
			{func(r *rig) { r.Allow("main", r.a) }, "probing"},
			{func(r *rig) { r.Left(r.a) }, "down"},
		},
		"the session of the probe ends": {
			{func(r *rig) { r.unavailable(r.a, outbox.Verdict{}); time.Sleep(FirstProbe) }, "open"},
			{func(r *rig) { r.Allow("main", r.a) }, "probing"},
			{func(r *rig) { r.Forget(func(m *message) bool { return m == r.a }, func(string) bool { return true }) }, "down"},
		},
		"the address asks for time": {
			{func(r *rig) {
				r.unavailable(r.a, outbox.Verdict{RetryAfter: time.Minute})
				time.Sleep(59 * time.Second)
			}, "down"},
			{func(*rig) { time.Sleep(time.Second) }, "open"},
		},
		"it is gone until an operator resumes it": {
			{func(r *rig) { r.unavailable(r.a, outbox.Verdict{Gone: true}); time.Sleep(time.Hour) }, "gone"},
			{func(r *rig) { r.Delivered("main"); r.Apply(nil) }, "gone"}, // not written yet
			{func(r *rig) { r.Written("main"); r.Apply(pauses("main")) }, "gone"},
			{func(r *rig) { r.Apply(nil) }, "works"},
		},
		"an operator pauses it while it is down": {
			{func(r *rig) { r.unavailable(r.a, outbox.Verdict{}); r.Apply(pauses("main")); time.Sleep(time.Hour) }, "gone"},
			{func(r *rig) { r.Apply(pauses("other")) }, "works"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				defer r.Close()
				for i, step := range steps {
					step.do(r)
					synctest.Wait()
					if got := r.state(); got != step.want {
						t.Fatalf("step %d: the address is %s, want %s", i+1, got, step.want)
					}
				}
			})
		})
	}
}

// While one group fails, its attempts count; a second group's failure shows that the address was at fault.
func TestG10_WhatCountsWhileAnAddressFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		defer r.Close()
		for range 2 {
			if counts, blamed := r.fail(r.a); !counts || blamed != nil {
				t.Errorf("failure of one group: counts %v, to be given back %v", counts, blamed)
			}
		}
		if counts, blamed := r.fail(r.b); counts || !slices.Equal(blamed, []string{"a", "a"}) || r.b.charges != 0 {
			t.Errorf("failure of a second group: counts %v, to be given back %v; want the first group's two", counts, blamed)
		}
		for i := range 3 { // a probe that fails for the third time has had all of its attempts
			time.Sleep(LongestProbe)
			synctest.Wait() // for the rerun
			r.Allow("main", r.b)
			if counts, _ := r.fail(r.b); counts != (i == 2) {
				t.Errorf("failed probe %d counts: %v", i+1, counts)
			}
		}
	})
}

// The opening of an address that is down is for one message: the first that comes closes it.
func TestG10_AnOpeningIsForOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		defer r.Close()
		next := &message{group: "next"}
		if allowed, probe := r.Allow("main", next); !allowed || probe {
			t.Error("an address that works takes probes only")
		}
		r.unavailable(r.a, outbox.Verdict{})
		time.Sleep(FirstProbe)
		synctest.Wait()
		if r.opened != 1 || r.a.reruns != 1 {
			t.Errorf("opened %d times, the held message ran %d times", r.opened, r.a.reruns)
		}
		for i, c := range []struct {
			m    *message
			want bool
		}{{r.a, true}, {next, false}, {r.a, true}, {next, false}} {
			if allowed, probe := r.Allow("main", c.m); allowed != c.want || probe != c.want {
				t.Errorf("question %d of %s: allowed %v, as a probe %v; want %v", i+1, c.m.group, allowed, probe, c.want)
			}
		}
	})
}

// Probed is the first message of the group that waits longest, unless it has left its lane; the others run when the address is back.
func TestG10_WhichMessageIsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		defer r.Close()
		a2, left := &message{group: "a", number: 2}, &message{group: "l", gone: true}
		for _, m := range []*message{left, a2, r.b, r.a} {
			r.unavailable(m, outbox.Verdict{})
		}
		time.Sleep(FirstProbe)
		synctest.Wait()
		if r.a.reruns != 1 || a2.reruns+r.b.reruns != 0 {
			t.Errorf("probes: a %d, a2 %d, b %d; want the first of group a", r.a.reruns, a2.reruns, r.b.reruns)
		}
		held := map[string]int{}
		r.Held(func(address string, m *message) { held[address+m.group]++ })
		if len(held) != 2 || held["maina"] != 1 || held["mainb"] != 1 {
			t.Errorf("held are %v, want one of a and one of b", held)
		}
		if _, probing := r.probing[r.a]; !probing || len(r.probing) != 1 {
			t.Errorf("%d messages are kept as probes, want that of a", len(r.probing))
		}
		if e := r.Delivered("main"); !e.Back || !slices.Equal(e.Resume, []*message{a2, r.b}) || e.Empty() {
			t.Errorf("the address is back: %+v, want both that waited", e)
		}
		if e := r.Delivered("main"); !e.Empty() || len(r.probing) != 0 {
			t.Errorf("a second success has effects: %+v", e)
		}
	})
}

func TestProbeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		if r.ProbeNow("main") {
			t.Error("an address that works was probed")
		}
		r.unavailable(r.a, outbox.Verdict{RetryAfter: time.Hour})
		status := r.Status(error.Error)
		if len(status) != 1 || status[0].Held != 1 || status[0].Cause != "injected" || time.Until(status[0].NextProbe) != time.Hour {
			t.Errorf("status %+v", status)
		}
		if !r.ProbeNow("main") {
			t.Error("the planned probe was not run")
		}
		synctest.Wait()
		if r.a.reruns != 1 || r.ProbeNow("main") {
			t.Errorf("%d probes, want one", r.a.reruns)
		}
		r.Close()
	})
}

// A route remembers once that an address is gone, however many messages say so.
func TestGoneIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		defer r.Close()
		if !r.unavailable(r.a, outbox.Verdict{Gone: true}) || r.unavailable(r.b, outbox.Verdict{Gone: true}) {
			t.Error("not written exactly once")
		}
		r.Apply(pauses("main"))
		if e := r.Apply(nil); !e.Back || len(e.Resume) != 2 {
			t.Errorf("resumed with %+v, want both messages", e)
		}
	})
}
