package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every threat of docs/security.md has a defence, and a test that is there.
func TestThreatsNameTheirTests(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, names := range testsOfTree(t) {
		for _, name := range names {
			known[name] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(text), "|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	name := regexp.MustCompile(`\bTest[A-Z]\w*`)
	for row := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 3 || len(cells[1]) < 20 {
			t.Errorf("%s: want a threat, a defence and tests", row)
			continue
		}
		tests := name.FindAllString(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s: names no test", row)
		}
		for _, one := range tests {
			if !known[one] {
				t.Errorf("%s: there is no %s", row, one)
			}
		}
	}
}
