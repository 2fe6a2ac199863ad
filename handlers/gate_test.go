package handlers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

var errReleased = outbox.Released(errTest)

func TestCollateralStaysWithoutWakingItsChain(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		a1, a2, b1 := b.enter("a1", "a", "x"), b.enter("a2", "a", "x"), b.enter("b1", "b", "x")
		b.together(a2, b1, a1)
		b.sent("b1", "a1", "a2").answer <- []error{errReleased, errTest, errReleased}
		if err := a1.result(); !errors.Is(err, errTest) {
			t.Errorf("the culprit got %v", err)
		}
		b1.waits()
		b.sent("b1").answer <- nil
		wantNil(t, b1.result())
		b.silent() // a2 is behind the culprit
		a2.waits()
		b.gate.Leave(&a1.Ticket)
		b.sent("a2").answer <- nil
		wantNil(t, a2.result())
	})
}

func TestALostMessageIsNotDeliveredAgainBesideOthers(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		a1, b1 := b.enter("a1", "a", "x"), b.enter("b1", "b", "x")
		b.together(a1, b1)
		b.sent("a1", "b1").answer <- []error{outbox.Released(adapters.ErrLost), nil}
		wantKind(t, a1.result(), outbox.KindReleased)
		wantNil(t, b1.result())
		b.silent()
	})
}

func TestABatchThatWasNotAttemptedIsReleased(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		a1, b1 := b.enter("a1", "a", "x"), b.enter("b1", "b", "x")
		b.together(a1, b1)
		b.sent("a1", "b1").answer <- []error{errReleased, errReleased}
		for _, c := range []*chain{a1, b1} {
			wantKind(t, c.result(), outbox.KindReleased)
			if _, failed := c.Failed(); failed {
				t.Error("a released message counts as failed")
			}
		}
		b.silent()
		a1.handle()
		b.sent("a1").answer <- nil
		wantNil(t, a1.result())
	})
}

func TestBrokenDestinations(t *testing.T) {
	for name, tt := range map[string]struct {
		deliver func() []error
		want    string
	}{
		"panic":            {func() []error { panic("oh no") }, "the destination panicked at gate_test.go:"},
		"too few results":  {func() []error { return []error{errTest} }, "returned 1 results for 2 messages"},
		"too many results": {func() []error { return make([]error, 3) }, "returned 3 results for 2 messages"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, ordering setup) {
				broken := true
				limiter := NewLimiter(1, false)
				b := newBench(t, ordering, func(cfg *GateConfig) {
					cfg.Limiter = limiter
					cfg.Destination = &destination{ordering: ordering.Ordering, deliver: func(context.Context, string, []*message.Message) []error {
						if broken {
							return tt.deliver()
						}
						return nil
					}}
				})
				chains := []*chain{b.enter("1", "a", "x"), b.enter("2", "b", "x")}
				b.together(chains...)
				for _, c := range chains {
					err := c.result()
					wantKind(t, err, outbox.KindTransient)
					if !strings.Contains(err.Error(), tt.want) {
						t.Errorf("got %v, want ... %s ...", err, tt.want)
					}
					if address, failed := c.Failed(); !failed || address != "x" {
						t.Errorf("Failed: %q, %t", address, failed)
					}
				}
				broken = false
				wantNil(t, chains[0].handle().result()) // the place of the limiter was given back
				wantNil(t, chains[1].handle().result())
			})
		})
	}
}

func TestAnAddressErrorIsPermanent(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		bad, next := b.enter("bad", "a", ""), b.enter("next", "a", "x").handle()
		err := bad.handle().result()
		wantKind(t, err, outbox.KindPermanent)
		if !errors.Is(err, errTest) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("got %v, which does not tell the message and the cause", err)
		}
		b.silent()
		b.gate.Leave(&bad.Ticket)
		b.sent("next").answer <- nil
		wantNil(t, next.result())
	})
}

// The router asks when a chain has returned. A failure must not be told again
// for an attempt that did not come to the destination.
func TestAFailureIsToldOnce(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		c := b.enter("1", "a", "x").handle()
		b.sent("1").answer <- []error{errTest}
		wantKind(t, c.result(), outbox.KindTransient)
		if address, failed := c.Failed(); !failed || address != "x" {
			t.Errorf("after a failure at the destination: %q, %t", address, failed)
		}
		if _, failed := c.Failed(); failed {
			t.Error("the failure is told again after a failure in the middleware")
		}
		c.handle()
		b.sent("1").answer <- []error{errTest}
		wantKind(t, c.result(), outbox.KindTransient)
		c.handle()
		b.sent("1").answer <- nil
		wantNil(t, c.result())
		if _, failed := c.Failed(); failed || !c.Delivered() {
			t.Error("the middleware's second call was delivered; it counts as failed")
		}
	})
}

func TestBatchesStayInTheirBounds(t *testing.T) {
	t.Parallel()
	const big = "a message that is larger than a batch may be"
	for name, tt := range map[string]struct {
		ordering adapters.Ordering
		want     [][]string
	}{
		"messages": {adapters.Ordering{MaxMessages: 2}, [][]string{{"a1", "a2"}, {big, "b2"}, {"c1"}}},
		"default":  {adapters.Ordering{}, [][]string{{"a1"}, {big}, {"c1"}, {"a2"}, {"b2"}}},
		"of each":  {adapters.Ordering{MaxMessages: 9, PerGroup: 1}, [][]string{{"a1", big, "c1"}, {"a2", "b2"}}},
		"groups":   {adapters.Ordering{MaxMessages: 9, MaxGroups: 2}, [][]string{{"a1", "a2", big, "b2"}, {"c1"}}},
		"bytes":    {adapters.Ordering{MaxMessages: 9, MaxBytes: 5}, [][]string{{"a1", "a2"}, {big}, {"c1", "b2"}}},
	} {
		for _, unit := range []adapters.Unit{adapters.UnitWave, adapters.UnitGroup} {
			t.Run(name, func(t *testing.T) {
				tt.ordering.Unit = unit
				bubble(t, func(t *testing.T) {
					// One place: one batch at a time for both units.
					b := newBench(t, setup{Ordering: tt.ordering}, func(cfg *GateConfig) { cfg.Limiter = NewLimiter(1, false) })
					b.together(b.enter("a1", "a", "x"), b.enter("a2", "a", "x"), b.enter(big, "b", "x"),
						b.enter("b2", "b", "x"), b.enter("c1", "c", "x"))
					for _, ids := range tt.want {
						b.sent(ids...).answer <- nil
					}
					b.silent()
				})
			})
		}
	}
}

func TestAWaveIsAloneAtItsAddressAndGroupsFlyTogether(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.enter("a1", "a", "x").handle()
		b.enter("a2", "a", "x").handle()
		b.enter("b1", "b", "x").handle()
		b.enter("c1", "c", "y").handle()
		b.enter("n1", "", "x").handle()
		a1 := b.sent("a1")
		if ordering.Unit == adapters.UnitWave {
			b.sent("c1")
			b.silent()
			a1.answer <- nil
			b.sent("b1", "n1", "a2")
		} else {
			b.sent("b1")
			b.sent("c1")
			b.sent("n1")
			b.silent()
			a1.answer <- nil
			b.sent("a2")
		}
	})
}

func TestWithdraw(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		flying := []*chain{b.enter("1", "a", "x"), b.enter("2", "a", "x")}
		b.together(flying...)
		r := b.sent("1", "2")
		left, waiting, running := b.enter("3", "a", "x"), b.enter("4", "a", "x").handle(), b.enter("5", "a", "x")
		b.gate.Leave(&left.Ticket)

		out, kept := b.gate.Withdraw(&running.Ticket, WholeGroup)
		if got := owners(out); !slices.Equal(got, []*chain{waiting, running}) {
			t.Errorf("out: %d tickets, want 4 and 5", len(got))
		}
		if got := owners(kept); !slices.Equal(got, flying) {
			t.Errorf("kept: %d tickets, want 1 and 2", len(got))
		}
		wantKind(t, waiting.result(), outbox.KindReleased)
		if err := running.handle().result(); !errors.Is(err, errWithdrawn) {
			t.Errorf("a chain that comes later got %v", err)
		}
		b.enter("6", "a", "x").handle()
		b.silent()
		r.answer <- []error{nil, errTest}
		wantNil(t, flying[0].result())
		wantKind(t, flying[1].result(), outbox.KindTransient)
		b.silent()                    // 6 is behind 2, which kept its place
		b.gate.Leave(&running.Ticket) // has no effect
		b.gate.Leave(&flying[1].Ticket)
		b.sent("6").answer <- nil
		b.empty()
	})
}

func TestWithdrawTakesTheGroupOutOfLine(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		b.closed.Store(true)
		one, alone := b.enter("1", "a", "x").handle(), b.enter("2", "", "x").handle()
		for _, c := range []*chain{one, alone} {
			out, kept := b.gate.Withdraw(&c.Ticket, WholeGroup)
			if got := owners(out); len(kept) > 0 || !slices.Equal(got, []*chain{c}) {
				t.Errorf("withdrawn %v, kept %v, want the message", got, kept)
			}
			wantKind(t, c.result(), outbox.KindReleased)
		}
		b.empty()
	})
}

func TestStalled(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		started := time.Now()
		flying := b.enter("1", "slow", "x").handle()
		b.sent("1")
		b.enter("2", "slow", "x").handle()
		away := b.enter("3", "away", "x")
		b.gate.Leave(&b.enter("4", "away", "x").Ticket)
		b.enter("5", "away", "y").handle()
		b.closed.Store(true)
		b.enter("6", "ready", "y").handle()

		want := func(slow time.Time, want ...Stall) {
			t.Helper()
			got := b.gate.Stalled(slow)
			slices.SortFunc(got, func(x, y Stall) int { return y.Waiting - x.Waiting })
			slices.SortStableFunc(got, func(x, _ Stall) int {
				if x.Sending {
					return -1
				}
				return 1
			})
			if !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		behindAway := Stall{Front: &away.Ticket, Waiting: 2}
		want(started.Add(-time.Second), behindAway)
		elapse(2 * time.Second)
		want(started.Add(time.Second), Stall{Front: &flying.Ticket, Waiting: 2, Sending: true}, behindAway)
	})
}

func TestStopReleasesWhatWaitsAndAwaitsWhatIsBeingSent(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		flying := []*chain{b.enter("1", "a", "x"), b.enter("2", "b", "x"), b.enter("3", "c", "x")}
		b.together(flying...)
		r := b.sent("1", "2", "3")
		behind := b.enter("4", "a", "x").handle()
		b.closed.Store(true)
		inLine, alone := b.enter("5", "d", "x").handle(), b.enter("6", "", "y").handle()
		late := b.enter("7", "e", "x")

		stopped := make(chan struct{})
		go func() {
			b.gate.Stop()
			close(stopped)
		}()
		for _, c := range []*chain{behind, inLine, alone} {
			wantKind(t, c.result(), outbox.KindReleased)
		}
		wantKind(t, late.handle().result(), outbox.KindReleased)
		if isClosed(stopped) {
			t.Fatal("Stop returned before the delivery")
		}
		r.answer <- []error{nil, errTest, errReleased}
		wantNil(t, flying[0].result())
		wantKind(t, flying[1].result(), outbox.KindTransient)
		wantKind(t, flying[2].result(), outbox.KindReleased) // nothing will be sent again: it must not wait
		if b.silent(); !isClosed(stopped) {
			t.Fatal("Stop did not return after the delivery")
		}
		b.gate.Kick()
		b.silent()
	})
}

func TestAbortEndsDeliveries(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		c := b.enter("1", "a", "x").handle()
		r := b.sent("1")
		b.gate.Abort()
		if err := c.result(); !errors.Is(err, context.Canceled) || r.ctx.Err() == nil {
			t.Errorf("got %v, want the cancelled context", err)
		}
	})
}

// What a middleware does wrong must not stop the group, nor kill the message.
func TestAMiddlewareThatHandlesTwice(t *testing.T) {
	inChains(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		c := b.enter("1", "a", "x").handle()
		first, r := c.ended, b.sent("1")
		c.ended = make(chan error, 1)
		wantKind(t, c.handle().result(), outbox.KindReleased)
		r.answer <- nil
		b.silent()
		wantNil(t, <-first)
		wantNil(t, c.handle().result()) // delivered: not sent again
		b.silent()
		b.empty()
	})
}

func TestAMiddlewareThatDoesNotWaitForItsHandler(t *testing.T) {
	for name, errs := range map[string][]error{"delivered": nil, "failed": {errTest}} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, ordering setup) {
				b := newBench(t, ordering)
				sent, next := b.enter("1", "a", "x").handle(), b.enter("2", "a", "x").handle()
				r := b.sent("1")
				last := b.enter("3", "a", "x").handle()
				b.gate.Leave(&sent.Ticket) // concluded although it is being sent
				b.silent()
				b.gate.Leave(&last.Ticket) // concluded although it waits
				wantKind(t, last.result(), outbox.KindReleased)
				r.answer <- errs
				b.sent("2").answer <- nil
				wantNil(t, next.result())
				if err := sent.result(); errs == nil {
					wantNil(t, err)
					wantNil(t, sent.handle().result())
				} else {
					wantKind(t, err, outbox.KindTransient)
					wantKind(t, sent.handle().result(), outbox.KindReleased)
				}
				b.silent()
				b.empty()
			})
		})
	}
}

// The front of a group may stand still for hours while messages behind it are
// skipped: their memory has been given back to the budget.
func TestWhatLeavesBehindTheFrontIsNotKept(t *testing.T) {
	inBubbles(t, func(t *testing.T, ordering setup) {
		b := newBench(t, ordering)
		front := b.enter("front", "a", "x")
		for range 100 {
			b.gate.Leave(&b.enter("skipped", "a", "x").Ticket)
		}
		last := b.enter("last", "a", "x").handle()
		q := b.gate.groups["a"]
		for _, x := range q.queue[:cap(q.queue)] {
			if x != nil && x != &front.Ticket && x != &last.Ticket {
				t.Fatal("the queue of the group holds a message that has left")
			}
		}
		b.gate.Leave(&front.Ticket)
		b.sent("last").answer <- nil
		b.empty()
	})
}

func owners(tickets []*Ticket) []*chain {
	out := make([]*chain, 0, len(tickets))
	for _, t := range tickets {
		out = append(out, t.Owner.(*chain))
	}
	return out
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
