package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/guarantee-tests.md and docs/layouts.md")

const (
	guaranteesPage = "docs/guarantees.md"
	testsPage      = "docs/guarantee-tests.md"
	guarantees     = 13
)

const testsHead = `# Tests of the guarantees

Find here the tests that enforce each of the [guarantees](guarantees.md). A test has the numbers of its guarantees in its name, so
` + "`make test TESTFLAGS='-run G2_'`" + ` runs those of G2.

<!-- Written by go test ./internal/docs -update, which fails without -update when a test is missing here or does not exist. -->
`

// TestGuaranteesNameTheirTests fails when the page of tests names one that does not
// exist, when the tree has a test of a guarantee that it does not list, and when a guarantee has no section or no test.
// `go test ./internal/docs -update` writes the page again; review the difference.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	tests := testsOfTree(t)
	text, err := os.ReadFile(filepath.Join(root, guaranteesPage))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString(testsHead)
	for g := range guarantees {
		name := fmt.Sprint("G", g+1)
		list := listOf(name, tests)
		if list == listHead {
			t.Errorf("%s has no test", name)
		}
		if !strings.Contains(string(text), "\n## "+name+" ") || !strings.Contains(string(text), "("+filepath.Base(testsPage)+"#"+strings.ToLower(name)+")") {
			t.Errorf("%s has no section for %s, or no link to its tests", guaranteesPage, name)
		}
		want.WriteString("\n## " + name + "\n" + list)
	}
	file := filepath.Join(root, testsPage)
	if *update {
		if err := os.WriteFile(file, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != want.String() {
		t.Errorf("%s does not have the tests of the tree (%s); write them with: go test ./internal/docs -update",
			testsPage, strings.Join(difference(Spans(string(is)), Spans(want.String())), ", "))
	}
	known := map[string]bool{}
	for _, names := range tests {
		for _, name := range names {
			known[name] = true
		}
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(text)+string(is), -1) {
		if !known[name] {
			t.Errorf("%s or %s names %s, which does not exist", guaranteesPage, testsPage, name)
		}
	}
}

const listHead = "\n| in | tests |\n|---|---|\n"

// guaranteesOf returns those that a test names: G1 and G2 of TestG1_G2_Kill.
func guaranteesOf(test string) []string {
	var out []string
	for part := range strings.SplitSeq(strings.TrimPrefix(test, "Test"), "_") {
		n, err := strconv.Atoi(strings.TrimPrefix(part, "G"))
		if err != nil || part[0] != 'G' {
			break
		}
		out = append(out, fmt.Sprint("G", n))
	}
	return out
}

// listOf is the table of the tests that enforce a guarantee.
func listOf(guarantee string, tests map[string][]string) string {
	rows := []string{listHead}
	for _, folder := range slices.Sorted(maps.Keys(tests)) {
		var names []string
		for _, name := range tests[folder] {
			if slices.Contains(guaranteesOf(name), guarantee) {
				names = append(names, "`"+name+"`")
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			rows = append(rows, "| `"+folder+"` | "+strings.Join(names, " ")+" |\n")
		}
	}
	return strings.Join(rows, "")
}

// testsOfTree returns the tests of the module by folder. Every guarantee that a
// name claims must be one.
func testsOfTree(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			tests[folder] = append(tests[folder], fn.Name.Name)
			for _, g := range guaranteesOf(fn.Name.Name) {
				if n, _ := strconv.Atoi(g[1:]); n < 1 || n > guarantees {
					t.Errorf("%s: %s claims %s, which is no guarantee", path, fn.Name.Name, g)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// difference says which names a page lacks and which it has too many.
func difference(is, want []string) []string {
	var out []string
	for _, name := range want {
		if !slices.Contains(is, name) {
			out = append(out, "it lacks "+name)
		}
	}
	for _, name := range is {
		if !slices.Contains(want, name) {
			out = append(out, "it has "+name+", which is not there")
		}
	}
	return out
}

func TestGuaranteesOfAName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"TestG1_G2_G10_BrokerIsKilled": {"G1", "G2", "G10"}, "TestG7_Memory_G8": {"G7"},
		"TestGlobalMerge": nil, "TestGuard": nil, "TestTail": nil, "TestG_1": nil, "Test_G1": nil,
	} {
		if got := guaranteesOf(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
