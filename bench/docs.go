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

// writeDocs replaces the sections of the scenarios, those of the server. Plots show the usual one.
func (r *report) writeDocs(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("-write: %w: run the benchmark from the root of the repository", err)
	}
	for _, o := range r.Scenarios {
		name, section := o.Name, r.markdown(&o)
		if r.Server == packagedPostgres {
			name, section = o.Name+"-"+packagedPostgres, r.markdownBeside(&o)
			text = addSection(text, name, o.Name)
		}
		if text, err = replace(text, name, section); err != nil {
			return fmt.Errorf("-write: %s: %w", file, err)
		}
	}
	for _, o := range r.Scenarios {
		if r.Server == packagedPostgres {
			break
		}
		if err := writePlots(filepath.Join(filepath.Dir(file), plotFolder), o.plots()); err != nil {
			return fmt.Errorf("-write: %w", err)
		}
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // documentation is for all to read
}

// addSection adds the marks of a section behind another one, if they are missing.
func addSection(text []byte, name, behind string) []byte {
	begin, end, former := fmt.Sprintf(beginMark, name), fmt.Sprintf(endMark, name), fmt.Sprintf(endMark, behind)
	if bytes.Contains(text, []byte(begin)) {
		return text
	}
	return bytes.Replace(text, []byte(former), []byte(former+"\n\n"+begin+"\n"+end), 1)
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
	o.markdownTable(&b)
	for _, p := range o.plots() {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.title, path.Join(plotFolder, p.file))
	}
	markdownList(&b, o.Remarks)
	markdownList(&b, o.legend())
	fmt.Fprintf(&b, "\n%s.\n", r.Machine.Line())
	return b.String()
}

// markdownBeside returns the section of a scenario on another server, which follows that on the usual one.
func (r *report) markdownBeside(o *outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "On the distribution's PostgreSQL, with its own settings and fsync on. %s. Measured with `%s`.\n\n", o.Title, r.Command)
	o.markdownTable(&b)
	markdownList(&b, o.Remarks)
	fmt.Fprintf(&b, "\n%s.\n", r.Machine.Line())
	return b.String()
}

func (o *outcome) markdownTable(b *strings.Builder) {
	heads, cells := o.table()
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, c := range cells {
		fmt.Fprintf(b, "| %s |\n", strings.Join(c, " | "))
	}
}

func markdownList(b *strings.Builder, lines []string) {
	b.WriteByte('\n')
	for _, l := range lines {
		fmt.Fprintf(b, "- %s\n", l)
	}
}
