package docs

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	ours             = "github.com/outriderhq/outrider"
	dependenciesPage = "docs/dependencies.md"
)

// requirement is a module that a go.mod file requires.
type requirement struct {
	Path     string
	Version  string
	Indirect bool
}

// modules returns the folders that go.work names, the root as ".".
func modules(t *testing.T) []string {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, &work, "work", "edit", "-json", filepath.Join(root, "go.work"))
	var out []string
	for _, use := range work.Use {
		out = append(out, strings.TrimPrefix(use.DiskPath, "./"))
	}
	if len(out) < 3 {
		t.Fatalf("go.work names %v only", out)
	}
	return out
}

// required returns what the go.mod file of a folder requires of others.
func required(t *testing.T, folder string) []requirement {
	t.Helper()
	var mod struct{ Require []requirement }
	goJSON(t, &mod, "mod", "edit", "-json", filepath.Join(root, folder, "go.mod"))
	return slices.DeleteFunc(mod.Require, func(r requirement) bool { return r.Path == ours })
}

// goJSON decodes what a go command prints.
func goJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(goOutput(t, args...)), into); err != nil {
		t.Fatal(err)
	}
}

// goOutput returns what a go command prints. Packages are listed in the main module,
// as those see it who require it.
func goOutput(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if args[0] == "list" {
		cmd.Dir = root // the other modules name files relative to it
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// Whoever requires Outrider gets neither the benchmark's peers nor what tests break
// networks and brokers with.
func TestMainModuleRequiresNothingOfItsBenchmarkAndFaults(t *testing.T) {
	t.Parallel()
	elsewhere := regexp.MustCompile(`^(gonum\.org/|codeberg\.org/|git\.sr\.ht/|github\.com/Shopify/toxiproxy|` +
		`github\.com/rs/|github\.com/gorilla/|github\.com/twmb/franz-go/pkg/kfake$)`)
	for _, r := range required(t, ".") {
		if elsewhere.MatchString(r.Path) {
			t.Errorf("go.mod requires %s: that is for bench/go.mod or internal/faults/go.mod", r.Path)
		}
	}
}

// What applications import pulls a dozen modules at most: counted are those that
// packages come from, as in the application's go.mod after go mod tidy.
func TestApplicationsPullFewModules(t *testing.T) {
	t.Parallel()
	for _, entry := range []struct {
		of   string
		most int
	}{
		{"outbox", 12},
		{"outbox/wmsql", 13}, // and watermill-sql
	} {
		pulled := map[string]bool{}
		for path := range strings.FieldsSeq(goOutput(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+entry.of)) {
			pulled[path] = true
		}
		delete(pulled, ours)
		if len(pulled) > entry.most || len(pulled) == 0 {
			t.Errorf("package %s pulls %d modules, want %d at most: %s", entry.of, len(pulled), entry.most,
				strings.Join(slices.Sorted(maps.Keys(pulled)), ", "))
		}
	}
}

// In the workspace the newest version counts that any of the modules requires. So that
// this is also what each is built with alone, all require the same.
func TestModulesRequireTheSameVersions(t *testing.T) {
	t.Parallel()
	versions := map[string]requirement{}
	for _, folder := range modules(t) {
		for _, r := range required(t, folder) {
			if other, ok := versions[r.Path]; ok && other.Version != r.Version {
				t.Errorf("%s/go.mod requires %s %s, another module %s: run go work sync", folder, r.Path, r.Version, other.Version)
			}
			versions[r.Path] = r
		}
	}
}

// Every module that is required directly is in the table of its go.mod file, with a
// reason, and nothing else is.
func TestDependenciesHaveReasons(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, dependenciesPage))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		sections[title] = rest
	}
	main := listed(sections["go.mod"])
	for _, folder := range modules(t) {
		title := strings.TrimPrefix(folder+"/go.mod", "./")
		rows := listed(sections[title])
		for _, r := range required(t, folder) {
			if r.Indirect {
				continue
			}
			if !rows[r.Path] && (folder == "." || !main[r.Path]) {
				t.Errorf("%s: the table of %s does not say why %s is required", dependenciesPage, title, r.Path)
			}
			delete(rows, r.Path)
		}
		for path := range rows {
			t.Errorf("%s: the table of %s lists %s, which is not required directly", dependenciesPage, title, path)
		}
	}
}

// dependency is a row of a table of dependencies: paths, and a reason.
var dependency = regexp.MustCompile(`(?m)^\| ([a-z][^|]*\.[^|]*) \| [^|]{10,} \|$`)

// listed returns the modules in a table of dependencies.
func listed(table string) map[string]bool {
	out := map[string]bool{}
	for _, m := range dependency.FindAllStringSubmatch(table, -1) {
		for path := range strings.SplitSeq(m[1], ", ") {
			out[path] = true
		}
	}
	return out
}
