package lane

import (
	"math"
	"testing"
	"time"
)

// The ages of a route are as many as its deliveries, although few of a busy route are measured, and whatever order they come in.
func TestAgesWeighAsTheDeliveriesThatTheyCountFor(t *testing.T) {
	t.Parallel()
	var s routeStats
	const day = 24 * time.Hour
	for _, m := range []struct {
		n   int64
		age time.Duration
	}{{1, 2 * time.Millisecond}, {129, 8 * day}, {65, time.Second}, {130, day}} {
		s.measure(m.age, m.n)
	}
	all, counts := int64(0), s.ages.load()
	for _, n := range counts {
		all += n
	}
	if all != 130 || counts[len(counts)-1] != 128 || counts[1] != 1 {
		t.Errorf("%d ages: %v, want 130, of them 128 above all bounds", all, counts)
	}
	want := 0.002 + 128*8*day.Seconds() + day.Seconds()
	if got := math.Float64frombits(s.ageSum.Load()); math.Abs(got-want) > 1e-3 {
		t.Errorf("the ages are %g s together, want %g", got, want)
	}
}

// BenchmarkMeasure is what the histogram of ages costs each message that is measured: on a busy route one of 64.
func BenchmarkMeasure(b *testing.B) {
	var s routeStats
	for b.Loop() {
		n := s.deliveredN.Add(1)
		s.measure(time.Second, n)
	}
}
