package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// docsFile is the page into which -write writes the results, from the repository's
// root.
const docsFile = "docs/benchmarks.md"

// Marks around the section of a scenario in [docsFile]; the rest is written by hand.
const (
	beginMark = "<!-- bench:%s: written by `go run ./bench -write`, do not edit -->"
	endMark   = "<!-- /bench:%s -->"
)

// writeDocs replaces the sections of the scenarios.
func (r *report) writeDocs(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("-write: %w: run the benchmark from the root of the repository", err)
	}
	for _, o := range r.Scenarios {
		if text, err = replace(text, o.Name, r.markdown(&o)); err != nil {
			return fmt.Errorf("-write: %s: %w", file, err)
		}
	}
	for _, o := range r.Scenarios {
		if err := writePlots(filepath.Join(filepath.Dir(file), plotFolder), o.plots()); err != nil {
			return fmt.Errorf("-write: %w", err)
		}
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // documentation is for all to read
}

// replace replaces the section between the scenario's marks.
func replace(text []byte, name, section string) ([]byte, error) {
	begin, end := fmt.Sprintf(beginMark, name), fmt.Sprintf(endMark, name)
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, fmt.Errorf("has no section for the scenario %s: add the lines %q and %q", name, begin, end)
	}
	var out bytes.Buffer
	out.Write(before)
	fmt.Fprintf(&out, "%s\n\n%s\n%s", begin, section, end)
	out.Write(after)
	return out.Bytes(), nil
}

// markdown returns the section of a scenario.
func (r *report) markdown(o *outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Alone: `make bench BENCHFLAGS='-scenario %s'`.\n\n%s. Measured with `%s`.\n\n", scenarioNamed(o.Name).about, o.Name, o.Title, r.Command)
	heads, cells := o.table()
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, c := range cells {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(c, " | "))
	}
	for _, p := range o.plots() {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.title, path.Join(plotFolder, p.file))
	}
	for _, part := range [][]string{o.Remarks, o.legend(), r.Machine.Lines()} {
		b.WriteByte('\n')
		for _, l := range part {
			fmt.Fprintf(&b, "- %s\n", l)
		}
	}
	return b.String()
}
