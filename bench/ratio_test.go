package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

func TestTheIntervalOfTheMedian(t *testing.T) {
	t.Parallel()
	// The number of values left out on each side, by the number of values: the table of the sign test at 5%.
	for n, want := range map[int]int{5: -1, 6: 0, 7: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 20: 5} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		low, high, ok := interval(values)
		if ok != (want >= 0) || ok && (low != float64(want) || high != float64(n-1-want)) {
			t.Errorf("of %d values: from %v to %v, %v; want %d left out", n, low, high, ok, want)
		}
	}
}

func TestRatiosSayWhatIsBeyondNoise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		figure        string
		before, after []float64
		verdict       string
		median        float64
	}{
		"a higher rate":             {rateFigure, []float64{100, 200, 100, 200, 100, 200, 100}, []float64{110, 220, 111, 218, 109, 224, 130}, "better", 1.10},
		"a lower rate":              {rateFigure, []float64{100, 100, 100, 100, 100, 100}, []float64{99, 98, 97, 90, 90, 90}, "worse", 0.935},
		"less time":                 {"p50", []float64{10, 10, 10, 10, 10, 10}, []float64{9, 9, 9, 9, 9, 9}, "better", 0.9},
		"more memory":               {"peak memory", []float64{10, 10, 10, 10, 10, 10}, []float64{12, 12, 12, 12, 12, 12}, "worse", 1.2},
		"one pair of seven differs": {rateFigure, []float64{100, 100, 100, 100, 100, 100, 100}, []float64{110, 110, 110, 110, 110, 110, 99}, "noise", 1.1},
		"too few pairs":             {rateFigure, []float64{100, 100, 100, 100, 100}, []float64{200, 200, 200, 200, 200}, "noise", 2},
	} {
		r := newRatio(quantity{Name: tt.figure, Runs: tt.before}, quantity{Name: tt.figure, Runs: tt.after})
		if r.Verdict != tt.verdict || rounded(r.Median) != tt.median {
			t.Errorf("%s: %s, median %v; want %s, %v", name, r.Verdict, r.Median, tt.verdict, tt.median)
		}
	}
}

func TestBuildsAreComparedByEntry(t *testing.T) {
	t.Parallel()
	got := compareBuilds(testPairs())
	if len(got) != 2 || got[0].With != "" || got[1].With != warmed {
		t.Fatalf("compared %+v", got)
	}
	var figures []string
	for _, r := range got[0].Ratios {
		figures = append(figures, r.Figure)
	}
	if !slices.Equal(figures, []string{rateFigure, "settle"}) { // one of the builds lacks the p50, and a peak is 0
		t.Errorf("figures %q", figures)
	}
	o := outcome{Name: "drain", Compared: got, Builds: []string{"abc", "working tree"}}
	_, cells := o.table()
	if want := "outrider|1000||rate msgs/s|100|110|1.100|1.100 to 1.100|better"; strings.Join(cells[0], "|") != want {
		t.Errorf("the first line is %q, want %q", strings.Join(cells[0], "|"), want)
	}
	if got, want := ratioRemark(got), "3 of 3 ratios of 6 pairs are beyond noise; of equal builds one in 20 may be."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ratioRemark([]comparison{{Ratios: []ratio{{Before: []float64{1}}}}}); !strings.Contains(got, "1 pairs are too few") {
		t.Errorf("got %q", got)
	}
}

// testPairs are the results of two entries and two builds.
func testPairs() []result {
	six := func(v float64) []float64 { return slices.Repeat([]float64{v}, 6) }
	return []result{
		{Peer: "outrider", Rows: 1000, Measured: []quantity{{Name: rateFigure, Unit: "msgs/s", Runs: six(100)}, {Name: "p50", Runs: six(1)},
			{Name: "settle", Unit: "ms", Runs: six(4)}, {Name: "peak memory", Runs: six(0)}}},
		{Peer: "outrider", Rows: 1000, Measured: []quantity{{Name: rateFigure, Unit: "msgs/s", Runs: six(110)}, {Name: "settle", Runs: six(3)},
			{Name: "peak memory", Runs: six(1)}}},
		{Peer: "outrider", With: warmed, Rows: 1000, Measured: []quantity{{Name: rateFigure, Runs: six(100)}}},
		{Peer: "outrider", With: warmed, Rows: 1000, Measured: []quantity{{Name: rateFigure, Runs: six(90)}}},
	}
}

func TestBuildsSwapPlacesInEveryOtherRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		builds, run int
		want        []int
	}{{1, 0, []int{0, 1, 2, 3}}, {1, 1, []int{0, 1, 2, 3}}, {2, 0, []int{0, 1, 2, 3}}, {2, 1, []int{1, 0, 3, 2}}} {
		if got := turns(4, tt.builds, tt.run); !slices.Equal(got, tt.want) {
			t.Errorf("%d builds, run %d: %v, want %v", tt.builds, tt.run, got, tt.want)
		}
	}
}

// A build makes its own tables, and its relay delivers from them.
func TestTwoBuildsAreMeasured(t *testing.T) {
	t.Parallel()
	self := testProgram(t)
	s := measureSmallWith(t, []build{{name: "one", program: self}, {name: "two", program: self}}, []int{1}, "-runs", "2", "-scenario", "drain")
	if len(s.Compared) != 1 || s.Compared[0].Peer != peers.OutriderName || len(s.Results) != 2 || s.Results[1].Build != "two" {
		t.Fatalf("compared %+v of %+v", s.Compared, s.Results)
	}
	for _, r := range s.Compared[0].Ratios {
		if len(r.Before) != 2 || len(r.After) != 2 || r.Median <= 0 || r.Verdict != "noise" {
			t.Errorf("%+v", r)
		}
	}
	if _, err := newStage(t.Context(), smallServers(t), drainScenario, entry{peer: peers.ToKafka, sink: measure.Topic{}, rows: 1, groups: 1},
		build{name: "none", program: "/nonexistent"}, &options{payload: measure.MinPayload}); err == nil {
		t.Error("the tables are not made by the build")
	}
}
