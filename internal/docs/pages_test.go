package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/outriderhq/outrider/config"
)

const root = "../.."

// pages returns all pages; each is to be checked by a subtest of its own.
func pages(t *testing.T) []Page {
	t.Helper()
	all, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("found %d pages only", len(all))
	}
	return all
}

// Whoever opens a page learns first what it is about and what for.
func TestPagesBeginWithWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	comments := regexp.MustCompile(`(?s)<!--.*?-->\n*`)
	for _, p := range pages(t) {
		title, rest, _ := strings.Cut(comments.ReplaceAllString(p.Text, ""), "\n\n")
		first, _, _ := strings.Cut(rest, "\n\n")
		if !regexp.MustCompile(`^# \S[^\n]*$`).MatchString(title) {
			t.Errorf("%s begins with %q, want a title", p.Path, title)
		}
		if len(first) < 60 || strings.ContainsAny(first[:1], "#-|> ") {
			t.Errorf("%s goes on with %q, want a sentence or two on what the page is for", p.Path, first)
		}
	}
}

// link is a link of Markdown; code has none.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for i, line := range p.Prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				if err := follow(p, m[1]); err != nil {
					t.Errorf("%s:%d: link to %s: %v", p.Path, i+1, m[1], err)
				}
			}
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()
	p := Page{Path: "docs/tables.md"}
	for target, good := range map[string]bool{
		"configuration.md": true, "configuration.md#postgres": true, "../README.md#guarantees": true, "#indexes": true,
		"nothing.md": false, "configuration.md#nothing": false, "#nothing": false, "README.md": false,
	} {
		if err := follow(p, target); (err == nil) != good {
			t.Errorf("%s: got %v", target, err)
		}
	}
}

// follow looks whether the target of a link exists, and the heading in it.
func follow(p Page, target string) error {
	path, anchor, _ := strings.Cut(target, "#")
	file := p.Path
	if path != "" {
		file = filepath.Join(filepath.Dir(p.Path), path)
	}
	if _, err := os.Stat(filepath.Join(root, file)); err != nil || anchor == "" {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	for _, line := range (Page{Text: string(text)}).Prose() {
		if heading := strings.TrimLeft(line, "#"); heading != line && slug(heading) == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no such heading", file)
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// toBeMade are the names that CONTRIBUTING.md's recipes use for files yet to be written.
var toBeMade = regexp.MustCompile(`amqp|mysql|talkie`)

// Files that prose names as `folder/file.go` exist.
func TestFilesThatAreNamedExist(t *testing.T) {
	t.Parallel()
	file := regexp.MustCompile(`^[a-z]+(?:/[a-z_]+)+\.(?:go|md|yaml)$`)
	for _, p := range pages(t) {
		for i, line := range p.Prose() {
			for _, span := range Spans(line) {
				if !file.MatchString(span) || p.Path == "CONTRIBUTING.md" && toBeMade.MatchString(span) {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, span)); errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s:%d: there is no %s", p.Path, i+1, span)
				}
			}
		}
	}
}

// Tests that prose names must exist: a renamed test makes the page wrong.
func TestTestsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^Test\w+$`)
	for _, p := range pages(t) {
		for i, line := range p.Prose() {
			for _, span := range Spans(line) {
				if name.MatchString(span) && !declared[span] {
					t.Errorf("%s:%d: there is no test %s", p.Path, i+1, span)
				}
			}
		}
	}
}

// variable plays the environment that the pages' configurations take values from:
// what a value is for shows in the variable's name.
func variable(name string) (string, bool) {
	for _, v := range []struct{ ending, value string }{
		{"DATABASE_URL", "postgres://user:password@db.example.com/app"},
		{"MONGODB_URL", "mongodb://user:password@db.example.com/app?tls=true"},
		{"AMQP_URL", "amqps://user:password@rabbit.example.com/"},
		{"_URL", "https://api.example.com/"},
		{"_TOKEN", "token"},
		{"_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	} {
		if strings.HasSuffix(name, v.ending) {
			return v.value, true
		}
	}
	return "", false
}

// Every configuration in a page is accepted. Of those that show a part, the rest
// is made up.
func TestConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	complete := 0
	for _, p := range pages(t) {
		for _, b := range p.Blocks() {
			text, whole := completed(b.Text)
			if text == "" {
				continue
			}
			if whole {
				complete++
			}
			cfg, err := config.Parse(p.Path, []byte(text), variable)
			if err != nil {
				t.Errorf("%s:%d: %v", p.Path, b.Line, err)
				continue
			}
			for _, w := range cfg.Warnings {
				t.Errorf("%s:%d: %s", p.Path, b.Line, w.Text())
			}
		}
	}
	if complete < 5 {
		t.Errorf("found %d complete configurations only", complete)
	}
}

var (
	section = regexp.MustCompile(`(?m)^(sources|routes):`)
	entry   = regexp.MustCompile(`(?m)^  ([a-z0-9_-]+):`)
	from    = regexp.MustCompile(`(?m)\bfrom: ([a-z0-9_-]+)`)
	to      = regexp.MustCompile(`(?m)\bto: ([a-z0-9_-]+)`)
)

// completed returns the configuration that a block shows, and whether it was
// whole; empty when it shows none. Only sources, or only routes, are completed.
func completed(block string) (text string, whole bool) {
	found := map[string]bool{}
	for _, m := range section.FindAllStringSubmatch(block, -1) {
		found[m[1]] = true
	}
	switch {
	case found["sources"] && found["routes"]:
		return block, true
	case found["sources"]:
		parts := []string{block, "destinations:\n  nowhere: {type: discard}\nroutes:\n"}
		for i, m := range entry.FindAllStringSubmatch(block, -1) {
			parts = append(parts, fmt.Sprintf("  route%d: {from: %s, to: nowhere}\n", i, m[1]))
		}
		return strings.Join(parts, ""), false
	case found["routes"]:
		return block + fmt.Sprintf("sources:\n  %s: {type: sqlite, path: x.db}\ndestinations:\n", from.FindStringSubmatch(block)[1]) +
			fmt.Sprintf("  %s: {type: discard}\n", to.FindStringSubmatch(block)[1]), false
	}
	return "", false
}
