package handlers

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// oneByOne sends single messages.
var oneByOne = adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1}

// lanes are gates that share a limiter and tell the test in one place what
// they send.
func lanes(t *testing.T, n, places int) ([]*bench, *Limiter) {
	limiter := NewLimiter(places, false)
	out := make([]*bench, n)
	for i := range out {
		out[i] = newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
		out[i].requests = out[0].requests
	}
	return out, limiter
}

// fill has places taken for addresses, one for each.
func (l *Limiter) fill(addresses ...string) {
	for _, a := range addresses {
		l.acquire(&pipe{address: a})
	}
}

func (l *Limiter) state() (free, waiting int) {
	l.permits.mu.Lock()
	defer l.permits.mu.Unlock()
	return l.free, len(l.permits.line)
}

func TestLanesShareAPlaceFairly(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 4; n++ {
		t.Run(fmt.Sprintf("%d lanes", n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const each = 30
				all, limiter := lanes(t, n, 1)
				for i, b := range all {
					for range each {
						b.enter(strconv.Itoa(i), "", "x").handle()
					}
				}
				served := make(map[string]int)
				for range n * each {
					r := all[0].next()
					served[r.ids[0]]++
					for i := range all {
						if lead := served[r.ids[0]] - served[strconv.Itoa(i)]; lead > 2 {
							t.Fatalf("one lane is %d batches ahead of another: %v", lead, served)
						}
					}
					r.answer <- nil
				}
				for _, b := range all {
					b.empty()
				}
				if free, waiting := limiter.state(); free != 1 || waiting != 0 {
					t.Errorf("%d places are free and %d lanes wait, want 1 and 0", free, waiting)
				}
			})
		})
	}
}

func TestTheLimiterBoundsRequestsOverAllLanesAndAddresses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all, _ := lanes(t, 3, 4)
		for _, b := range all {
			for i := range 6 {
				b.enter("m", "", fmt.Sprint("address ", i%2)).handle()
			}
		}
		var open []*request
		for range 18 {
			for len(open) < 4 && len(all[0].requests) > 0 {
				open = append(open, all[0].next())
			}
			all[0].silent()
			open[0].answer <- nil
			open = open[1:]
			synctest.Wait()
		}
		for _, b := range all {
			b.empty()
		}
	})
}

// A lane may stand in line for a place and have no use for it when its turn
// comes: the place goes to the next one.
func TestAPlaceThatALaneHasNoUseForGoesToTheNext(t *testing.T) {
	for name, giveUp := range map[string]func(b *bench, c *chain){
		"stopped":   func(b *bench, _ *chain) { b.gate.Stop() },
		"withdrawn": func(b *bench, c *chain) { b.gate.Withdraw(&c.Ticket, WholeGroup) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				all, limiter := lanes(t, 4, 1)
				all[0].enter("holder", "a", "x").handle()
				r := all[0].sent("holder")
				for _, b := range all[1:3] {
					giveUp(b, b.enter("gone", "a", "x").handle())
				}
				last := all[3]
				c := last.enter("last", "a", "x").handle()
				last.silent()
				if _, waiting := limiter.state(); waiting != 1 {
					t.Fatalf("%d lanes wait for the place, want 1", waiting)
				}
				r.answer <- nil
				last.sent("last").answer <- nil
				wantNil(t, c.result())
				if free, waiting := limiter.state(); free != 1 || waiting != 0 {
					t.Errorf("%d places are free and %d lanes wait, want 1 and 0", free, waiting)
				}
			})
		})
	}
}

// Who wants one more place keeps those that they have, until somebody else wants
// one too: another lane, or another address.
func TestNobodyIsAContenderOfThemselves(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter(1, false)
	first, second := &pipe{address: "x"}, &pipe{address: "x"}
	limiter.acquire(first)
	limiter.acquire(first)
	if limiter.contended(first) || !limiter.contended(second) {
		t.Error("contended counts the pipe itself, or not the other")
	}
	limiter.acquire(second)
	if !limiter.contended(first) || !limiter.contended(second) {
		t.Error("contended does not count the other pipe")
	}
}

// Limiters that share their places have together as many as the largest, and each no more
// than its own; a place that becomes free goes to whoever is in line, of any of them.
func TestLimitersSharePlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		places := new(Permits)
		limiters := []*Limiter{places.Limiter(1, false), places.Limiter(3, false)}
		all := make([]*bench, len(limiters))
		for i, limiter := range limiters {
			all[i] = newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
			all[i].requests = all[0].requests
			for n := range 6 {
				all[i].enter(fmt.Sprint(i, n), "", "x").handle()
			}
		}
		for sent := range 12 {
			synctest.Wait()
			free := []int{limiters[0].free, limiters[1].free}
			if held := 4 - free[0] - free[1]; held > min(3, 12-sent) || free[0] < 0 || free[1] < 0 || places.free != 3-held {
				t.Fatalf("after %d: %d places are taken, %v and of all %d are free", sent, held, free, places.free)
			}
			all[0].next().answer <- nil
		}
		for i, b := range all {
			b.empty()
			if free, waiting := limiters[i].state(); free != []int{1, 3}[i] || waiting != 0 || places.free != 3 {
				t.Errorf("%d places are free, of all %d, and %d wait", free, places.free, waiting)
			}
		}
	})
}

func TestALimiterHasADefault(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: adapters.DefaultMaxRequests, -1: adapters.DefaultMaxRequests, 3: 3} {
		if free, _ := NewLimiter(n, false).state(); free != want {
			t.Errorf("NewLimiter(%d, false): %d places, want %d", n, free, want)
		}
	}
}

func TestAGateWithoutLimiterObeysItsDestination(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, setup{Ordering: adapters.Ordering{Unit: adapters.UnitGroup, MaxRequests: 2, Static: true}})
		for range 3 {
			b.enter("m", "", "x").handle()
		}
		r := b.sent("m")
		b.sent("m")
		b.silent()
		r.answer <- nil
		b.sent("m")
	})
}

// Addresses that hang hold half of the places, then half of the rest, and so on:
// another address always finds one.
func TestG6_HangingAddressesLeavePlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := NewLimiter(16, true)
		b := newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
		hanging := map[string]int{}
		for _, address := range []string{"first", "second", "third"} {
			for range 20 {
				b.enter("m", "", address).handle()
			}
			synctest.Wait()
			for len(b.requests) > 0 {
				hanging[b.next().address]++
			}
		}
		if want := map[string]int{"first": 8, "second": 4, "third": 2}; !maps.Equal(hanging, want) {
			t.Errorf("requests that hang: %v, want %v", hanging, want)
		}
		for range 50 {
			c := b.enter("m", "", "alive").handle()
			b.next().answer <- nil
			wantNil(t, c.result())
		}
	})
}

// What waits for an address that completes nothing is told apart from what waits
// for the lane.
func TestG6_StalledTellsOfAHangingAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, setup{Ordering: adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1, MaxRequests: 2}})
		b.enter("1", "a", "hangs").handle()
		b.sent("1")
		second := b.enter("2", "b", "hangs").handle()
		elapse(2 * time.Second)
		for _, s := range b.gate.Stalled(time.Now().Add(-time.Second)) {
			if s.Down && s.Front == &second.Ticket {
				return
			}
		}
		t.Error("the message in line for the hanging address is not told")
	})
}

// A lane that got a place for one address is in line for another one still.
func TestG13_APlaceForOneAddressIsNoneForAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := NewLimiter(4, true)
		limiter.fill("a", "a") // by other lanes: as many as an address may have
		b := newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
		b.enter("1", "", "a").handle()
		b.silent()
		b.enter("2", "", "b").handle()
		b.sent("2").answer <- nil
		b.silent()
		limiter.release("a")
		b.sent("1").answer <- nil
		b.silent()
		limiter.release("a")
		if free, waiting := limiter.state(); free != 4 || waiting != 0 {
			t.Errorf("%d places are free and %d lanes wait, want 4 and 0", free, waiting)
		}
	})
}

// A place that is returned may let another address go than the one that is first
// in line, which had a place coming to it before.
func TestG13_EveryPlaceThatMayBeHadIsGiven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := NewLimiter(6, true)
		limiter.fill("a", "a", "b", "b")
		var gates []*bench
		for _, address := range []string{"b", "a"} {
			g := newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
			g.enter(address, "", address).handle()
			g.silent()
			gates = append(gates, g)
		}
		limiter.release("a") // b may have three of them now, and a two
		first := gates[0].sent("b")
		gates[1].sent("a").answer <- nil
		first.answer <- nil
	})
}

// A busy lane hands over the places that another lane may have for the same
// address, although there are free ones, which are for other addresses.
func TestG13_PlacesOfAnAddressAreSharedFairly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := NewLimiter(4, true)
		busy := newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
		other := newBench(t, setup{Ordering: oneByOne}, func(cfg *GateConfig) { cfg.Limiter = limiter })
		for range 20 {
			busy.enter("busy", "", "a").handle()
		}
		busy.sent("busy").answer <- nil // one of two, the other one of which hangs
		busy.sent("busy")
		other.enter("other", "", "a").handle()
		for range 2 {
			other.silent()
			busy.sent("busy").answer <- nil
		}
		other.sent("other")
	})
}
