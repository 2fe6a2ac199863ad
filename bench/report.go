package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
)

// sample is one run of one peer.
type sample struct {
	rate     float64       // messages per second
	cpu      float64       // microseconds of processor time per message
	peak     int64         // bytes resident
	p50, p99 time.Duration // from commit to arrival; zero: not measured

	figures map[string]float64 // what else the scenario measures, by name
	curves  []curve
}

// curve is a quantity over time, or over another quantity.
type curve struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

// point is a point of a curve: x and y.
type point [2]float64

// figure records a figure that only this scenario measures.
func (s *sample) figure(name string, value float64) {
	if s.figures == nil {
		s.figures = map[string]float64{}
	}
	s.figures[name] = value
}

// timed records the latency of messages.
func (s *sample) timed(delays measure.DelayTimes) {
	s.p50, s.p99 = delays.Quantile(0.5), delays.Quantile(0.99)
}

func newSample(rows int, elapsed time.Duration, used usage) sample {
	return sample{
		rate: float64(rows) / elapsed.Seconds(),
		cpu:  float64(used.cpu.Microseconds()) / float64(rows),
		peak: used.peak,
	}
}

// String is for the progress of a run that counts.
func (s sample) String() string {
	text := fmt.Sprintf("%.0f msgs/s, %.2f us CPU per message, %d MiB", s.rate, s.cpu, s.peak>>20)
	if s.p99 > 0 {
		text += fmt.Sprintf(", p50 %.2f ms, p99 %.2f ms", milliseconds(s.p50), milliseconds(s.p99))
	}
	parts := []string{text}
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, s.figures[name]))
	}
	text = strings.Join(parts, ", ")
	if _, counted := s.figures[undelivered]; counted {
		return text
	}
	return text + "; lost 0, duplicates 0"
}

// rateFigure is the name of the rate among the quantities.
const rateFigure = "rate"

// quantities returns what the run has measured.
func (s sample) quantities() (out []quantity) {
	add := func(name, unit string, v float64) {
		if v != 0 { // else it was not measured
			out = append(out, quantity{Name: name, Unit: unit, Runs: []float64{v}})
		}
	}
	add(rateFigure, "msgs/s", s.rate)
	add("p50", "ms", milliseconds(s.p50))
	add("p99", "ms", milliseconds(s.p99))
	add("processor time", "us/msg", s.cpu)
	add("peak memory", "MiB", float64(s.peak)/(1<<20))
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		label, unit, _ := strings.Cut(name, " (")
		out = append(out, quantity{Name: label, Unit: strings.TrimSuffix(unit, ")"), Runs: []float64{s.figures[name]}})
	}
	return out
}

// result summarises the runs of a peer.
type result struct {
	Peer     string     `json:"peer"`
	Build    string     `json:"build,omitempty"`
	About    string     `json:"about"`
	With     string     `json:"with,omitempty"` // what is special about the line
	Rows     int        `json:"rows"`
	Measured []quantity `json:"figures"`          // all of them
	Curves   []curve    `json:"curves,omitempty"` // of the last run

	// What tables show of them.
	Rates   []float64          `json:"-"` // messages per second, in the order of the runs
	Rate    float64            `json:"-"` // their median
	CPU     float64            `json:"-"` // microseconds of user and system time per message, the median
	Peak    int64              `json:"-"` // bytes resident, the most of all runs
	P50s    []float64          `json:"-"` // milliseconds, in the order of the runs
	P50     float64            `json:"-"` // their median
	P99     float64            `json:"-"`
	Figures map[string]float64 `json:"-"` // what only this scenario measures, by name
}

func summarise(st *stage, samples []sample) result {
	r := result{Peer: st.peer.Name(), Build: st.build.name, About: st.peer.About(), With: st.with, Rows: st.rows}
	var cpu, p99 []float64
	figures := map[string][]float64{}
	for _, s := range samples {
		r.Rates = append(r.Rates, s.rate)
		cpu = append(cpu, s.cpu)
		r.Peak = max(r.Peak, s.peak)
		if s.p99 > 0 {
			r.P50s, p99 = append(r.P50s, milliseconds(s.p50)), append(p99, milliseconds(s.p99))
		}
		for name, v := range s.figures {
			figures[name] = append(figures[name], v)
		}
		r.Curves = s.curves
	}
	for name, values := range figures {
		if r.Figures == nil {
			r.Figures = map[string]float64{}
		}
		r.Figures[name] = median(values)
	}
	r.Rate, r.CPU, r.P50, r.P99 = median(r.Rates), median(cpu), median(r.P50s), median(p99)
	r.Measured = collect(samples)
	return r
}

// collect joins the quantities of the runs, those that all of them have.
func collect(samples []sample) (out []quantity) {
	for _, s := range samples {
		for _, q := range s.quantities() {
			i := slices.IndexFunc(out, func(o quantity) bool { return o.Name == q.Name })
			if i < 0 {
				i = len(out)
				out = append(out, quantity{Name: q.Name, Unit: q.Unit})
			}
			out[i].Runs = append(out[i].Runs, q.Runs...)
		}
	}
	out = slices.DeleteFunc(out, func(q quantity) bool { return len(q.Runs) != len(samples) })
	for i := range out {
		out[i].Median = median(out[i].Runs)
	}
	return out
}

// median of an even number is the mean of the middle two.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// report has all results of a call of the program.
type report struct {
	Command   string          `json:"command"`
	Server    string          `json:"server"` // the value of -postgres
	Machine   measure.Machine `json:"machine"`
	Scenarios []outcome       `json:"scenarios"`
}

// outcome has the results of a scenario.
type outcome struct {
	Name     string       `json:"name"`
	Title    string       `json:"title"`
	Results  []result     `json:"results"`
	Builds   []string     `json:"builds,omitempty"`   // two that are compared
	Compared []comparison `json:"compared,omitempty"` // the same results, as ratios
	Remarks  []string     `json:"remarks"`
}

// legend describes the peers, each once.
func (o *outcome) legend() []string {
	var out []string
	for _, r := range o.Results {
		if line := r.Peer + ": " + r.About; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// text prints the report for a terminal.
func (r *report) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, r.Machine.Line())
	for _, o := range r.Scenarios {
		heads, cells := o.table()
		fmt.Fprintf(w, "\n%s\n\n%s\n", o.Title, strings.Join(heads, "\t"))
		for _, c := range cells {
			fmt.Fprintln(w, strings.Join(c, "\t"))
		}
		fmt.Fprintln(w)
		for _, l := range slices.Concat(o.Remarks, o.legend()) {
			fmt.Fprintln(w, l)
		}
	}
	return w.Flush()
}
