package interleave_test

import (
	"os"
	"strconv"
	"testing"
)

const (
	// shareVariable says how many interleavings of each scenario are run: a number, or all.
	shareVariable = "OUTRIDER_INTERLEAVE"

	// briefShare is how many without it: enough to see that the scenarios work.
	briefShare = 3

	// allMost bounds those of one scenario.
	allMost = 5_000

	// mutantShare is how many a mutant has to survive at least.
	mutantShare = 150
)

// briefly reports whether only a few interleavings are wanted.
func briefly() bool { return os.Getenv(shareVariable) == "" }

// shareOf is how many interleavings of each scenario are run; 0: all.
func shareOf(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv(shareVariable); text {
	case "":
		return briefShare
	case "all":
		return 0
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			t.Fatalf("%s is %q: neither a number of interleavings nor all", shareVariable, text)
		}
		return n
	}
}

// play runs the share of a scenario.
func (w *world) play(t *testing.T, sc *scenario) {
	t.Helper()
	var e explored
	var err error
	if n := shareOf(t); n > 0 {
		e, err = w.sample(t.Context(), sc, n)
	} else if e, err = w.explore(t.Context(), sc, allMost); err == nil && e.runs == allMost {
		t.Logf("%s: %v, which are not all", sc.name, e)
		e, err = w.sample(t.Context(), sc, allMost)
	}
	t.Logf("%s: %v", sc.name, e)
	if err != nil {
		t.Errorf("%s: %v", sc.name, err)
	}
}
