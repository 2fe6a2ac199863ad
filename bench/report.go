package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// sample is one run of one peer.
type sample struct {
	rate float64 // messages per second
	cpu  float64 // microseconds of processor time per message
	peak int64   // bytes resident
}

// result is what a peer's runs come to.
type result struct {
	Peer  string    `json:"peer"`
	About string    `json:"about"`
	Rows  int       `json:"rows"`
	Rates []float64 `json:"messages_per_second"`        // in the order of the runs
	Rate  float64   `json:"median_messages_per_second"` // their median
	CPU   float64   `json:"median_cpu_microseconds"`    // user and system time per message
	Peak  int64     `json:"peak_resident_bytes"`        // the most of all runs
}

func summarise(st *stage, samples []sample) result {
	r := result{Peer: st.peer.name(), About: st.peer.about(), Rows: st.rows}
	var cpu []float64
	for _, s := range samples {
		r.Rates = append(r.Rates, s.rate)
		cpu = append(cpu, s.cpu)
		r.Peak = max(r.Peak, s.peak)
	}
	r.Rate, r.CPU = median(r.Rates), median(cpu)
	return r
}

// median of an even number is the mean of the middle two.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// report is all that a call of the program measured.
type report struct {
	Command   string    `json:"command"`
	Machine   machine   `json:"machine"`
	Scenarios []outcome `json:"scenarios"`
}

// outcome is what a scenario measured.
type outcome struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Results []result `json:"results"`
	Remarks []string `json:"remarks"`
}

// columns of a table of results.
var columns = []string{"peer", "rows", "runs", "msgs/s (median)", "lowest to highest", "CPU us/msg", "peak MiB"}

// cells are the lines of the table.
func (o *outcome) cells() [][]string {
	var out [][]string
	for _, r := range o.Results {
		peak := "unknown"
		if r.Peak > 0 {
			peak = strconv.FormatInt(r.Peak>>20, 10)
		}
		out = append(out, []string{r.Peer, strconv.Itoa(r.Rows), strconv.Itoa(len(r.Rates)), fmt.Sprintf("%.0f", r.Rate),
			fmt.Sprintf("%.0f to %.0f", slices.Min(r.Rates), slices.Max(r.Rates)), fmt.Sprintf("%.2f", r.CPU), peak})
	}
	return out
}

// legend says what the peers are, each once.
func (o *outcome) legend() []string {
	var out []string
	for _, r := range o.Results {
		if line := r.Peer + ": " + r.About; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// lines describe the machine, one fact each.
func (m *machine) lines() []string {
	return []string{m.Date, m.Hardware, m.System, m.Postgres, m.Kafka, m.Libraries}
}

// text prints the report for a terminal.
func (r *report) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range r.Machine.lines() {
		fmt.Fprintln(w, l)
	}
	for _, o := range r.Scenarios {
		fmt.Fprintf(w, "\n%s\n\n%s\n", o.Title, strings.Join(columns, "\t"))
		for _, c := range o.cells() {
			fmt.Fprintln(w, strings.Join(c, "\t"))
		}
		fmt.Fprintln(w)
		for _, l := range slices.Concat(o.Remarks, o.legend()) {
			fmt.Fprintln(w, l)
		}
	}
	return w.Flush()
}
