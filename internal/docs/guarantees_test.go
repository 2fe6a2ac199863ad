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

var update = flag.Bool("update", false, "rewrite the lists of tests in docs/guarantees.md")

const (
	guaranteesPage = "docs/guarantees.md"
	guarantees     = 13
)

// enforcing is a list of the tests that enforce a guarantee, as the page has it.
var enforcing = regexp.MustCompile(`(?s)(<!-- tests of (G\d+):[^>]*-->\n)(.*?)(\n<!-- /tests -->)`)

const listHead = "\n| in | tests |\n|---|---|\n"

// TestGuaranteesNameTheirTests fails when the page names a test that does not
// exist, or when the tree has a test of a guarantee that the page does not list.
// `go test ./internal/docs -update` writes the lists again; look at the difference.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	tests := testsOfTree(t)
	file := filepath.Join(root, guaranteesPage)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lists, changes []string
	want := enforcing.ReplaceAllStringFunc(string(text), func(list string) string {
		m := enforcing.FindStringSubmatch(list)
		want := listOf(m[2], tests)
		lists = append(lists, m[2])
		changes = append(changes, difference(m[2], Spans(m[3]), Spans(want))...)
		return m[1] + want + m[4]
	})
	for g := range guarantees {
		if name := fmt.Sprint("G", g+1); !slices.Contains(lists, name) || !strings.Contains(want, "\n## "+name+" ") {
			t.Errorf("%s has no section or no list for %s", guaranteesPage, name)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s: the lists are not those of the tree (%s); write them with: go test ./internal/docs -update",
			guaranteesPage, strings.Join(changes, ", "))
	}
	known := map[string]bool{}
	for _, names := range tests {
		for _, name := range names {
			known[name] = true
		}
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(want, -1) {
		if !known[name] {
			t.Errorf("%s names %s, which does not exist", guaranteesPage, name)
		}
	}
}

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

// difference says which names a list lacks and which it has too many.
func difference(list string, is, want []string) []string {
	var out []string
	for _, name := range want {
		if !slices.Contains(is, name) {
			out = append(out, list+" lacks "+name)
		}
	}
	for _, name := range is {
		if !slices.Contains(want, name) {
			out = append(out, list+" has "+name+", which is not there")
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
