package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// comparison compares the builds of an entry.
type comparison struct {
	Peer   string  `json:"peer"`
	With   string  `json:"with,omitempty"`
	Rows   int     `json:"rows"`
	Ratios []ratio `json:"ratios"`
}

// ratio compares a figure of two builds, pair by pair.
type ratio struct {
	Figure  string    `json:"figure"`
	Unit    string    `json:"unit,omitempty"`
	Before  []float64 `json:"before"` // of the first build, in the order of the pairs
	After   []float64 `json:"after"`
	Median  float64   `json:"median_ratio"` // of the pairs' ratios, after to before
	Lowest  float64   `json:"lowest_ratio"`
	Highest float64   `json:"highest_ratio"`
	Verdict string    `json:"verdict"` // noise, better or worse
}

// MarshalJSON rounds the values.
func (r ratio) MarshalJSON() ([]byte, error) {
	type plain ratio
	r.Before, r.After = allRounded(r.Before), allRounded(r.After)
	r.Median, r.Lowest, r.Highest = rounded(r.Median), rounded(r.Lowest), rounded(r.Highest)
	return json.Marshal(plain(r))
}

// doubt is the probability that two equal builds seem to differ in a figure, at most.
const doubt = 0.05

// compareBuilds compares the results of two builds, which follow each other.
func compareBuilds(results []result) (out []comparison) {
	for i := 0; i+1 < len(results); i += 2 {
		before, after := results[i], results[i+1]
		c := comparison{Peer: before.Peer, With: before.With, Rows: before.Rows}
		for _, old := range before.Measured {
			n := slices.IndexFunc(after.Measured, func(q quantity) bool { return q.Name == old.Name })
			if n >= 0 && slices.Min(old.Runs) > 0 {
				c.Ratios = append(c.Ratios, newRatio(old, after.Measured[n]))
			}
		}
		out = append(out, c)
	}
	return out
}

func newRatio(before, after quantity) ratio {
	r := ratio{Figure: before.Name, Unit: before.Unit, Before: before.Runs, After: after.Runs, Verdict: "noise"}
	each := make([]float64, len(r.Before))
	for i := range each {
		each[i] = r.After[i] / r.Before[i]
	}
	slices.Sort(each)
	r.Median, r.Lowest, r.Highest = median(each), each[0], each[len(each)-1]
	low, high, ok := interval(each)
	switch {
	case !ok || low <= 1 && high >= 1:
	case (low > 1) == (r.Figure == rateFigure): // of all else, less is better
		r.Verdict = "better"
	default:
		r.Verdict = "worse"
	}
	return r
}

// interval returns two of the sorted values. The median of all possible values is between them, but for the
// probability [doubt], whatever their distribution. Fewer than six values have no such interval; of six to eight it
// is from the lowest to the highest.
func interval(sorted []float64) (low, high float64, ok bool) {
	n, skip := len(sorted), -1
	// A value is as likely below the median as above it.
	chance := math.Pow(0.5, float64(n)) // of having so many below it
	for sum := chance; 2*sum <= doubt; sum += chance {
		skip++
		chance *= float64(n-skip) / float64(skip+1)
	}
	if skip < 0 {
		return 0, 0, false
	}
	return sorted[skip], sorted[n-1-skip], true
}

// ratioTable returns the heads and the lines of a table of ratios.
func ratioTable(compared []comparison, builds []string) (heads []string, cells [][]string) {
	heads = []string{"peer", "rows", "with", "figure", builds[0], builds[1], "ratio (median)", "lowest to highest", "verdict"}
	number := func(values []float64) string { return strconv.FormatFloat(rounded(median(values)), 'f', -1, 64) }
	for _, c := range compared {
		for _, r := range c.Ratios {
			cells = append(cells, []string{c.Peer, strconv.Itoa(c.Rows), c.With, r.Figure + " " + r.Unit, number(r.Before), number(r.After),
				fmt.Sprintf("%.3f", r.Median), fmt.Sprintf("%.3f to %.3f", r.Lowest, r.Highest), r.Verdict})
		}
	}
	return heads, cells
}

// ratioRemark says how to read the verdicts.
func ratioRemark(compared []comparison) string {
	all, beyond, pairs := 0, 0, 0
	for _, c := range compared {
		for _, r := range c.Ratios {
			all++
			pairs = len(r.Before)
			if r.Verdict != "noise" {
				beyond++
			}
		}
	}
	if _, _, ok := interval(make([]float64, pairs)); !ok {
		return fmt.Sprintf("%d pairs are too few to tell a difference from noise: it takes six.", pairs)
	}
	return fmt.Sprintf("%d of %d ratios of %d pairs are beyond noise; of equal builds one in %.0f may be.", beyond, all, pairs, 1/doubt)
}
