package handlers

import (
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// allowing answers Allow for the address "down"; all others are up.
type allowing struct {
	answer atomic.Int32 // an Allowance
	asked  atomic.Int32
}

func (a *allowing) allow(address string, _ *Ticket) Allowance {
	a.asked.Add(1)
	if address != "down" {
		return AllowAll
	}
	return Allowance(a.answer.Load())
}

func newAllowing(t *testing.T, ordering setup, answer Allowance) (*bench, *allowing) {
	a := &allowing{}
	a.answer.Store(int32(answer))
	return newBench(t, ordering, func(cfg *GateConfig) { cfg.Allow = a.allow }), a
}

func TestAnAddressThatIsDownGetsNothing(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b, a := newAllowing(t, ordering, AllowNone)
		down := []*chain{b.enter("1", "a", "down").handle(), b.enter("2", "b", "down").handle(), b.enter("3", "", "down").handle()}
		up := b.enter("4", "c", "up").handle()
		b.sent("4").answer <- nil
		wantNil(t, up.result())
		b.gate.Kick()
		b.silent()
		a.answer.Store(int32(AllowAll))
		b.silent() // until it is told
		b.gate.Kick()
		b.sent("1", "2", "3").answer <- nil
		for _, c := range down {
			wantNil(t, c.result())
		}
		b.empty()
	})
}

func TestAProbeIsOneMessage(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b, a := newAllowing(t, ordering, AllowNone)
		b.gate.cfg.Limiter = NewLimiter(1, false) // who may go at the same time is for Allow to say
		b.enter("a1", "a", "down").handle()
		b.enter("a2", "a", "down").handle()
		b.enter("b1", "b", "down").handle()
		a.answer.Store(int32(AllowOne))
		b.gate.Kick()
		for _, id := range []string{"a1", "b1", "a2"} {
			b.sent(id).answer <- nil
		}
		b.empty()
	})
}

// The message that Allow waits for, because it failed before, may stand behind
// others.
func TestAProbeIsFoundAnywhereInLine(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		var probe atomic.Pointer[Ticket]
		b := newBench(t, ordering, func(cfg *GateConfig) {
			cfg.Allow = func(_ string, x *Ticket) Allowance {
				if x == probe.Load() {
					return AllowOne
				}
				return AllowNone
			}
		})
		b.enter("1", "a", "x").handle()
		second := b.enter("2", "b", "x")
		probe.Store(&second.Ticket)
		b.enter("3", "c", "x").handle()
		b.silent()
		second.handle()
		b.sent("2").answer <- nil
		wantNil(t, second.result())
		b.silent()
	})
}

// Allow may change its mind while a batch is made.
func TestAProbeDoesNotJoinABatch(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		answers := []Allowance{AllowAll, AllowOne, AllowOne, AllowAll}
		b := newBench(t, ordering, func(cfg *GateConfig) {
			cfg.Limiter = NewLimiter(1, false)
			cfg.Allow = func(string, *Ticket) Allowance {
				next := answers[0]
				answers = answers[1:]
				return next
			}
		})
		b.together(b.enter("1", "a", "x"), b.enter("2", "b", "x"), b.enter("3", "c", "x"))
		b.sent("1").answer <- nil
		b.sent("2").answer <- nil
		b.sent("3").answer <- nil
		b.empty()
	})
}

func TestNothingIsSentWithoutPermit(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		flying := b.enter("1", "a", "x").handle()
		r := b.sent("1")
		b.closed.Store(true)
		b.enter("2", "a", "x").handle()
		b.enter("3", "b", "y").handle()
		r.answer <- nil // what was sent has its outcome all the same
		wantNil(t, flying.result())
		b.gate.Kick()
		b.silent()
		b.closed.Store(false)
		b.silent() // until it is told
		b.gate.Kick()
		got := map[string]bool{}
		for range 2 {
			r := b.next()
			got[r.ids[0]] = len(r.ids) == 1
			r.answer <- nil
		}
		if !got["2"] || !got["3"] {
			t.Errorf("sent %v, want 2 and 3 alone", got)
		}
		b.empty()
	})
}

// A group must not stand in line at an address that is down when its front has
// changed and goes elsewhere.
func TestTheNextOfAGroupMayGoElsewhere(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		b, _ := newAllowing(t, ordering, AllowNone)
		front, next := b.enter("1", "a", "down").timeout(1).handle(), b.enter("2", "a", "up").handle()
		elapse(1)
		wantKind(t, front.result(), outbox.KindReleased)
		b.gate.Leave(&front.Ticket)
		b.sent("2").answer <- nil
		wantNil(t, next.result())

		b.gate.Withdraw(&b.enter("3", "a", "down").handle().Ticket, WholeGroup)
		again := b.enter("4", "a", "up").handle()
		b.sent("4").answer <- nil
		wantNil(t, again.result())
		b.empty()
	})
}

// Lines at addresses that are down must not pass a place of the limiter
// around among themselves, for ever.
func TestAddressesThatAreDownDoNotSpin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const enough = 1000
		var asked atomic.Int32
		limiter := NewLimiter(1, false)
		down := func(cfg *GateConfig) {
			cfg.Limiter = limiter
			cfg.Allow = func(string, *Ticket) Allowance {
				if asked.Add(1) > enough {
					return AllowAll // so that the test fails and does not hang
				}
				return AllowNone
			}
		}
		one, two := newBench(t, setup{Ordering: perGroup}, down), newBench(t, setup{Ordering: perGroup}, down)
		for _, b := range []*bench{one, two} {
			for _, address := range []string{"x", "y", "z"} {
				b.enter(address, address, address).handle()
			}
		}
		one.silent()
		two.silent()
		one.gate.Kick()
		two.gate.Kick()
		one.silent()
		two.silent()
		if n := asked.Load(); n >= enough {
			t.Errorf("Allow was asked %d times", n)
		}
	})
}
