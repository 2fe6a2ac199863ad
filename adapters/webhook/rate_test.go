package webhook

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// passed lets many requests at one address compete for a time, and counts those
// that get their turn.
func passed(l *limits, senders int, during time.Duration) int {
	ctx, cancel := context.WithTimeout(context.Background(), during)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 0
	for range senders {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := l.wait(ctx, "x", "x"); err != nil {
					time.Sleep(100 * time.Millisecond) // as the lane does at least
					continue
				}
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return n
}

func TestRate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate    float64
		burst   int
		senders int
	}{{50, 50, 64}, {50, 1, 3}, {2, 5, 64}, {0.5, 1, 64}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const seconds = 20
				got := passed(newLimits(test.rate, test.burst), test.senders, seconds*time.Second)
				most := int(test.rate*seconds) + test.burst
				if got > most || got < most*9/10 {
					t.Errorf("%d requests in %d s, want %d", got, seconds, most)
				}
			})
		})
	}
}

func TestAddressesHaveRatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimits(1, 2), time.Now()
		for _, address := range []string{"a", "b", "a", "b", "c"} {
			if err := l.wait(t.Context(), address, address); err != nil {
				t.Error(err)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited %v within the bursts", waited)
		}
		if err := l.wait(t.Context(), "a", "a"); err != nil || time.Since(began).Round(time.Millisecond) != time.Second {
			t.Errorf("the third request came after %v, %v, want 1s", time.Since(began), err)
		}
	})
}

// What would wait long is told how long and takes up no place meanwhile.
func TestATurnThatIsFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimits(0.1, 1), time.Now() // one in 10 s
		if err := l.wait(t.Context(), "x", "x"); err != nil {
			t.Fatal(err)
		}
		v := outbox.VerdictOf(l.wait(t.Context(), "x", "x"))
		if v.Outcome != outbox.OutcomeReleased || v.RetryAfter.Round(time.Millisecond) != 10*time.Second || time.Since(began) != 0 {
			t.Errorf("%v after %v with retry after %v, want released at once with 10s", v.Outcome, time.Since(began), v.RetryAfter)
		}
		time.Sleep(7 * time.Second)
		if err := l.wait(t.Context(), "x", "x"); err != nil || time.Since(began).Round(time.Millisecond) != 10*time.Second {
			t.Errorf("a turn 3 s away: %v after %v", err, time.Since(began))
		}
		time.Sleep(7 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		v = outbox.VerdictOf(l.wait(ctx, "x", "x"))
		if v.Outcome != outbox.OutcomeReleased || v.RetryAfter.Round(time.Millisecond) != 3*time.Second {
			t.Errorf("a wait that would leave no time for the request: %v, retry after %v", v.Outcome, v.RetryAfter)
		}
	})
}

func TestTheContextEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimits(1, 1), time.Now()
		_ = l.wait(t.Context(), "x", "x")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		err := l.wait(ctx, "x", "x")
		if outbox.KindOf(err) != outbox.KindReleased || time.Since(began).Round(time.Millisecond) != 100*time.Millisecond {
			t.Errorf("%v after %v, want released when the context ends", err, time.Since(began))
		}
	})
}

func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLimits(1, 1)
	l.most = 100
	first := l.of("often")
	for i := range 10_000 {
		l.of(fmt.Sprint("address-", i))
		if i%50 == 0 && l.of("often") != first {
			t.Fatal("an address in use was forgotten")
		}
	}
	if n := len(l.young) + len(l.old); n > 2*l.most {
		t.Errorf("%d limiters are kept, want at most %d", n, 2*l.most)
	}
	if newLimits(0, 1) != nil {
		t.Error("there is a limit without a rate")
	}
}
