package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// output is the flag --output.
type output string

func (o *output) String() string { return string(*o) }
func (*output) Type() string     { return "table|json" }

// Set accepts table and json.
func (o *output) Set(text string) error {
	if text != "table" && text != "json" {
		return errors.New("must be table or json")
	}
	*o = output(text)
	return nil
}

// outputFlag adds --output to a command.
func outputFlag(c *cobra.Command) *output {
	o := output("table")
	c.Flags().VarP(&o, "output", "o", "output format")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return &o
}

func (o *output) json() bool { return *o == "json" }

// printJSON writes a value for machines.
func (a *app) printJSON(value any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// printTable writes rows below their headings.
func (a *app) printTable(headings []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(headings, "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// plain takes from a text what would act on a terminal, which messages and
// answers of receivers may hold, and shows that an empty one is empty.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text
}

// shorten cuts a text to a number of characters.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// cut is [shorten] on a terminal. Elsewhere nothing is cut: what reads the output
// may want all of it.
func (a *app) cut(text string, most int) string {
	if !terminal(a.out) {
		return text
	}
	return shorten(text, most)
}

// ago is how long a time has passed, for people; "" for no time.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Since(t)
	if d < 0 {
		return "in " + rough(-d)
	}
	return rough(d) + " ago"
}

// rough is a duration with as much detail as helps.
func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printPairs writes names and their values, below each other.
func (a *app) printPairs(pairs [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		fmt.Fprintf(w, "%s\t%s\n", p[0], plain(p[1]))
	}
	return w.Flush()
}
