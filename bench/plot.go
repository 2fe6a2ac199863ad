package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// plotFolder is the folder of the plots, next to [docsFile].
const plotFolder = "plots"

// plot is a picture of a scenario's results: bars, or lines.
type plot struct {
	file  string // within plotFolder
	title string
	x, y  string // what the axes show
	bars  []bar
	lines []curve
	log   bool // the values span orders of magnitude: on the x axis of shares, else on the y axis
	share bool // y is a share in percent
}

// bar is a value with a name.
type bar struct {
	name  string
	value float64
}

// plots returns the pictures of an outcome, none without results.
func (o *outcome) plots() []plot {
	sc := scenarioNamed(o.Name)
	if sc.plots == nil || len(o.Results) == 0 {
		return nil
	}
	return sc.plots(o.Results)
}

// writePlots draws the plots into files of the folder, which it makes.
func writePlots(folder string, plots []plot) error {
	for _, p := range plots {
		if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documentation is for all to read
			return err
		}
		text, err := p.draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", p.file, err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.file), text, 0o644); err != nil { //nolint:gosec // the same
			return err
		}
	}
	return nil
}

// sideBySide shows the rates of the peers.
func sideBySide(results []result) []plot {
	p := plot{file: "drain.svg", title: "From PostgreSQL to Kafka", y: "messages per second"}
	for _, r := range results {
		name := r.Peer
		if r.With != "" {
			name += ", " + r.With
		}
		p.bars = append(p.bars, bar{name, r.Rate})
	}
	return []plot{p}
}

// distributions show the percentage of messages that had arrived, by time.
func distributions(results []result) []plot {
	p := plot{file: "latency.svg", title: "From commit to receiver", x: "milliseconds", y: "% of the messages have arrived", log: true, share: true}
	for _, r := range results {
		for _, c := range r.Curves {
			c.Name = r.Peer + ", " + r.With
			p.lines = append(p.lines, c)
		}
	}
	return []plot{p}
}
