package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	step{args: "man " + dir}.run(t, nil)
	for _, name := range []string{"outrider.1", "outrider-run.1", "outrider-parked-list.1"} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), ".TH ") || !strings.Contains(string(page), "\"Outrider ") {
			t.Errorf("%s has no heading with the version:\n%.200s", name, page)
		}
	}
}
