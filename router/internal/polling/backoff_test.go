package polling

import (
	"slices"
	"testing"
	"time"
)

// The pauses of a route are those of Crablet's outbox: three at the interval, then twice as long each time, up to the longest; what is found
// begins anew.
func TestPaceGrowsAsCrabletsBackoff(t *testing.T) {
	t.Parallel()
	p := RoutePoll{Config: Config{Min: time.Second, After: 3, Factor: 2, Max: time.Minute}}
	now := time.Now()
	if !p.Due(now).IsZero() {
		t.Error("the first look is not due at once")
	}
	looks := func(n int) (pauses []time.Duration) {
		for range n {
			p.Polled(false, now)
			due := p.Due(now)
			pauses = append(pauses, due.Sub(now)/time.Second)
			if now = due; !p.Due(now).IsZero() {
				t.Error("a look is not due at its time")
			}
		}
		return pauses
	}
	if got, want := looks(11), []time.Duration{1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("pauses of %d s, want %d", got, want)
	}
	p.Polled(true, now)
	if !p.Due(now).IsZero() {
		t.Error("after a look that found something the next one is not due at once")
	}
	if got, want := looks(4), []time.Duration{1, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("afterwards pauses of %d s, want %d", got, want)
	}
	var none *RoutePoll
	if !none.Due(now).IsZero() {
		t.Error("a route without a pace of its own waits")
	}
}

// The pauses after failures grow with them, and begin anew after a poll that did not fail; what was found before it does not matter.
func TestFailuresAloneMakeTheirPausesLonger(t *testing.T) {
	t.Parallel()
	b := NewBackoff(Config{Min: time.Millisecond, Factor: 2, Max: time.Second}, nil)
	fails := func(n int) (pauses []time.Duration) {
		for range n {
			b.Poll()
			pauses = append(pauses, b.Failed()/time.Millisecond)
		}
		return pauses
	}
	want := []time.Duration{100, 200, 400, 800, 1600, 2000, 2000}
	for range 2 {
		for range 8 {
			b.Poll()
			b.Pause(t.Context())
		}
		if got := fails(len(want)); !slices.Equal(got, want) {
			t.Errorf("after polls that found nothing: pauses of %d ms, want %d", got, want)
		}
	}
}
