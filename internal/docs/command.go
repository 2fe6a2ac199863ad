package docs

import (
	"regexp"
	"strings"
)

// Command is a call of the program in a page.
type Command struct {
	Line  int
	Args  []string // without the program's name
	Whole bool     // from a block of code, so that no argument is left out
}

// A call begins a line, perhaps after a prompt, or follows a pipe.
var call = regexp.MustCompile(`^(?:\$ |.*\| )?outrider(?: (.*))?$`)

// Commands returns the calls of a page: those of its code, and those between
// backticks.
func (p Page) Commands() []Command {
	var out []Command
	for _, b := range p.Blocks() {
		if b.Lang == "go" || b.Lang == "yaml" {
			continue
		}
		for i, line := range strings.Split(b.Text, "\n") {
			if m := call.FindStringSubmatch(line); m != nil {
				out = append(out, Command{b.Line + i, words(m[1]), true})
			}
		}
	}
	for i, line := range p.Prose() {
		for _, span := range Spans(line) {
			if m := call.FindStringSubmatch(span); m != nil && !strings.HasPrefix(span, "$") {
				out = append(out, Command{i + 1, words(m[1]), false})
			}
		}
	}
	return out
}

// word is a run without blanks, of which parts may be quoted.
var word = regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`)

var quoted = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)

// words splits a line as a shell does, up to a comment, a pipe or a redirection.
func words(line string) []string {
	var out []string
	for _, w := range word.FindAllString(line, -1) {
		if strings.ContainsAny(w[:1], "#|>&;") || strings.HasPrefix(w, "2>") {
			break
		}
		out = append(out, quoted.ReplaceAllString(w, "$1$2"))
	}
	return out
}
