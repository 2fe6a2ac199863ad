package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/outriderhq/outrider/bench/measure"
)

// resultsFile has the figures of [docsFile] for programs, an object on each line.
const resultsFile = "docs/benchmarks.ndjson"

// record is a line of a file of results: a line of a scenario's table.
type record struct {
	Scenario string     `json:"scenario"`
	Server   string     `json:"server"`           // the value of -postgres
	Builds   []string   `json:"builds,omitempty"` // the commits that are compared
	Peer     string     `json:"peer"`
	With     string     `json:"with,omitempty"`
	Rows     int        `json:"rows"`
	Figures  []quantity `json:"figures,omitempty"`
	Ratios   []ratio    `json:"ratios,omitempty"` // of two builds, instead of the figures
	Command  string     `json:"command"`
	measure.Machine
}

// records returns the lines of the report. The libraries are those of the commit.
func (r *report) records() (out []record) {
	machine := r.Machine
	machine.Libraries = ""
	for _, o := range r.Scenarios {
		for _, c := range o.Compared {
			out = append(out, record{Scenario: o.Name, Server: r.Server, Builds: o.Builds, Peer: c.Peer, With: c.With, Rows: c.Rows, Ratios: c.Ratios,
				Command: r.Command, Machine: machine})
		}
		if len(o.Compared) > 0 {
			continue
		}
		for _, res := range o.Results {
			out = append(out, record{Scenario: o.Name, Server: r.Server, Peer: res.Peer, With: res.With, Rows: res.Rows, Figures: res.Measured,
				Command: r.Command, Machine: machine})
		}
	}
	return out
}

// replaces reports whether a new line takes the place of an old one: a file has the last results of a scenario on a
// server, all from one run.
func (r *record) replaces(old *record) bool {
	return r.Scenario == old.Scenario && r.Server == old.Server && slices.Equal(r.Builds, old.Builds)
}

// writeRecords writes the results into a file, in the order of the scenarios.
func (r *report) writeRecords(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // the user's own choice
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := r.records()
	all := slices.Clone(fresh)
	for n, line := range bytes.Split(text, []byte("\n")) {
		var old record
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &old); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
		if !slices.ContainsFunc(fresh, func(f record) bool { return f.replaces(&old) }) {
			all = append(all, old)
		}
	}
	place := func(r record) int {
		return slices.IndexFunc(scenarios, func(sc *scenario) bool { return sc.name == r.Scenario })
	}
	slices.SortStableFunc(all, func(a, b record) int { return place(a) - place(b) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, line := range all {
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // documentation is for all to read
}

// quantity is a figure of a peer's runs.
type quantity struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit,omitempty"`
	Median float64   `json:"median"`
	Runs   []float64 `json:"runs"` // in their order
}

// MarshalJSON rounds the values.
func (q quantity) MarshalJSON() ([]byte, error) {
	type plain quantity
	q.Median = rounded(q.Median)
	q.Runs = allRounded(q.Runs)
	return json.Marshal(plain(q))
}

// rounded returns a value with the digits that a measurement may have.
func rounded(v float64) float64 {
	const digits = 4
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, digits-1-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}

func allRounded(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = rounded(v)
	}
	return out
}
