package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testProgram is this test, which relays like the program.
func testProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// testRepository has a program ./bench that prints what the rest of its module says, and a harness of its own.
func testRepository(t *testing.T) (root string, write func(name, text string)) {
	t.Helper()
	root = t.TempDir()
	write = func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("says/says.go", "package says\n\nconst Text = \"old product\"\n")
	write("bench/main.go", "package main\n\nimport \"example.com/m/says\"\n\nfunc main() { println(says.Text, \"old harness\") }\n")
	write("bench/gone.go", "package main\n\nvar gone = undefinedInTheOldHarness\n")
	write("internal/testenv/testenv.go", "package testenv\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "old"}} {
		if err := runIn(t.Context(), root, "git", args...); err != nil {
			t.Fatal(err)
		}
	}
	return root, write
}

func TestBothBuildsHaveTheHarnessOfTheWorkingTree(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root, write := testRepository(t)
	write("says/says.go", "package says\n\nconst Text = \"new product\"\n")
	write("bench/main.go", "package main\n\nimport \"example.com/m/says\"\n\nfunc main() { println(says.Text, word) }\n")
	write("bench/more.go", "package main\n\nconst word = \"new harness\"\n")
	if err := os.Remove(filepath.Join(root, "bench", "gone.go")); err != nil {
		t.Fatal(err)
	}
	builds, remove, err := buildBoth(t.Context(), root, "HEAD", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"old product new harness", "new product new harness"} {
		out, err := exec.CommandContext(t.Context(), builds[i].program).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("build %s says %q, %v; want %q", builds[i].name, out, err, want)
		}
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(builds[0].program)); !os.IsNotExist(err) {
		t.Errorf("the builds are still there: %v", err)
	}
	noWorktreeIsLeft(t, root)
}

func TestARevisionThatLacksWhatTheHarnessUsesIsRefused(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root, write := testRepository(t)
	write("says/says.go", "package says\n\nconst Novel = \"new product\"\n")
	write("bench/main.go", "package main\n\nimport \"example.com/m/says\"\n\nfunc main() { println(says.Novel) }\n")
	if _, _, err := buildBoth(t.Context(), root, "HEAD", t.Logf); err == nil || !strings.Contains(err.Error(), "take a later revision") {
		t.Errorf("got %v", err)
	}
	if _, _, err := buildBoth(t.Context(), root, "no-such-revision", t.Logf); err == nil || !strings.Contains(err.Error(), "no-such-revision") {
		t.Errorf("got %v", err)
	}
	noWorktreeIsLeft(t, root)
}

func noWorktreeIsLeft(t *testing.T, root string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "worktree", "list").Output()
	if err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("worktrees: %s, %v", out, err)
	}
}
