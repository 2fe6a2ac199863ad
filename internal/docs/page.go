package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a file of the documentation.
type Page struct {
	Path string // from the root of the module: "README.md", "docs/tables.md"
	Text string
}

// Pages reads README.md, the other pages for readers at the root, and docs/*.md below the root of
// the module.
func Pages(root string) ([]Page, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	var pages []Page
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "SUPPORT.md", "CODE_OF_CONDUCT.md"} {
		files = append(files, filepath.Join(root, name))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		pages = append(pages, Page{filepath.ToSlash(path), string(text)})
	}
	return pages, nil
}

// Block is code in a page.
type Block struct {
	Line int    // where its text begins, from 1
	Lang string // of a fenced block, as it says; an indented one has none
	Text string // without the common indentation of indented blocks
}

const (
	fence  = "```"
	indent = "    "
)

// Blocks returns the code of a page, fenced or indented by four spaces.
func (p Page) Blocks() []Block {
	var out []Block
	lines := strings.Split(p.Text, "\n")
	for i := 0; i < len(lines); i++ {
		switch {
		case strings.HasPrefix(lines[i], fence):
			b := Block{Line: i + 2, Lang: strings.TrimSpace(lines[i][len(fence):])}
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], fence); i++ {
				b.Text += lines[i] + "\n"
			}
			out = append(out, b)
		case strings.HasPrefix(lines[i], indent) && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			b := Block{Line: i + 1}
			for ; i < len(lines) && (strings.HasPrefix(lines[i], indent) || strings.TrimSpace(lines[i]) == ""); i++ {
				b.Text += strings.TrimPrefix(lines[i], indent) + "\n"
			}
			i-- // the line that ended it may begin another one
			b.Text = strings.TrimRight(b.Text, "\n") + "\n"
			out = append(out, b)
		}
	}
	return out
}

// Prose returns the lines of a page, those of its code empty, so that numbers of
// lines stay.
func (p Page) Prose() []string {
	lines := strings.Split(p.Text, "\n")
	for _, b := range p.Blocks() {
		for i := range strings.Count(b.Text, "\n") {
			lines[b.Line-1+i] = ""
		}
	}
	return lines
}

var spans = regexp.MustCompile("`([^`]+)`")

// Spans returns the texts between backticks in a line of prose.
func Spans(line string) []string {
	var out []string
	for _, m := range spans.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1])
	}
	return out
}
