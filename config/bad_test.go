package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected files anew")

// canary is what no message may ever contain.
const canary = "hunter2"

// testEnv knows one variable.
func testEnv(name string) (string, bool) {
	if name == "CANARY" {
		return canary, true
	}
	return "", false
}

// TestG11_BadFiles compares all errors of each bad file with those expected.
func TestG11_BadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("only %d bad files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			src := read(t, file)
			cfg, err := Parse(filepath.Base(file), []byte(src), testEnv)
			var list *Errors
			if cfg != nil || !errors.As(err, &list) {
				t.Fatalf("Parse = %v, %v, want no configuration and *Errors", cfg, err)
			}
			checkPositions(t, src, list)
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the message shows a secret:\n%v", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// checkPositions makes sure that every error is inside the file and in order.
func checkPositions(t *testing.T, src string, list *Errors) {
	t.Helper()
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(src, "\ufeff"))
	lines := strings.Split(src, "\n")
	last := 0
	for _, e := range list.List {
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len([]rune(lines[e.Line-1]))+1 {
			t.Errorf("%v is outside of the file", e)
		}
		if e.Line < last {
			t.Errorf("%v is out of order", e)
		}
		last = e.Line
		if e.Message == "" || !strings.Contains(e.Text(), "^") {
			t.Errorf("%v has no message or no caret", e)
		}
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, file); got != want {
		t.Errorf("got:\n%s\nwant (%s; -update writes it anew):\n%s", got, file, want)
	}
}
