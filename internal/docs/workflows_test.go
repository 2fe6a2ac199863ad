package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// workflows returns the workflows and actions of hosted CI, by their paths.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"workflows/*.yml", "actions/*/action.yml"} {
		files, err := filepath.Glob(filepath.Join(root, ".github", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.ToSlash(file)] = string(text)
		}
	}
	if len(out) < 4 {
		t.Fatalf("found %d workflows only", len(out))
	}
	return out
}

// A tag can be moved to other code; a commit cannot.
func TestActionsArePinnedByCommit(t *testing.T) {
	t.Parallel()
	use := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`)
	pinned := regexp.MustCompile(`^(\./\.github/actions/[a-z]+|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	commits := map[string]string{}
	for file, text := range workflows(t) {
		for _, m := range use.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s uses %s: name the commit, and behind it the version", file, m[1])
			}
			name, commit, _ := strings.Cut(m[1], "@")
			if other := commits[name]; other != "" && other != commit {
				t.Errorf("%s uses %s at %s, another one at %s", file, name, commit, other)
			}
			commits[name] = commit
		}
	}
}

// Hosted CI runs what a person can run, with a token that reads and nothing more.
func TestWorkflowsRunTargetsAndReadOnly(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	for file, text := range workflows(t) {
		if strings.HasSuffix(file, "action.yml") {
			continue
		}
		var w struct {
			Permissions map[string]string `yaml:"permissions"`
			Jobs        map[string]struct {
				Timeout int `yaml:"timeout-minutes"`
				Steps   []struct {
					Run string `yaml:"run"`
				} `yaml:"steps"`
			} `yaml:"jobs"`
		}
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions are %v, want contents: read; a job that needs more says so itself", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.Timeout == 0 {
				t.Errorf("%s: job %s has no timeout-minutes", file, name)
			}
			for _, step := range job.Steps {
				for _, m := range targets.FindAllStringSubmatch(step.Run, -1) {
					if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
						t.Errorf("%s: there is no make %s", file, m[1])
					}
				}
			}
		}
	}
}

// dependabot looks at each module.
func TestDependabotKnowsAllModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	if err := yaml.Unmarshal(text, &d); err != nil || len(d.Updates) == 0 {
		t.Fatal(err, d)
	}
	var found []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git" || entry.Name() == ".cache"):
			return filepath.SkipDir
		case entry.Name() == "go.mod":
			rel, err := filepath.Rel(root, filepath.Dir(path))
			found = append(found, "/"+strings.TrimPrefix(filepath.ToSlash(rel), "."))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range found {
		if !slices.Contains(d.Updates[0].Directories, dir) {
			t.Errorf("dependabot.yml does not have the module in %s", dir)
		}
	}
}
