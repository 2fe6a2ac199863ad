package interleave_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/proof.md")

// page is the page that has the tables.
const page = "../../docs/proof.md"

// suites are the scenarios and mutants by database, as the page has them.
var suites = []struct {
	title     string
	scenarios []*scenario
	mutants   []*mutant
}{
	{"PostgreSQL: Outrider's own table, its state store, deliveries in a transaction", logScenarios, logMutants},
	{"PostgreSQL: settling beside an old snapshot", asideScenarios, asideMutants},
	{"PostgreSQL: queue tables", queueScenarios, queueMutants},
	{"MariaDB: the state store", stateScenarios, mariadbStateMutants},
	{"MariaDB: queue tables", queueScenarios, mariadbQueueMutants},
}

// TestThePageHasEachScenarioAndMutant compares the tables of the page with those that the tests run.
func TestThePageHasEachScenarioAndMutant(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	must(t, err)
	got := string(text)
	want := within(t, within(t, got, "scenarios", scenarioTable()), "mutants", mutantTable())
	if *update && got != want {
		must(t, os.WriteFile(page, []byte(want), 0o600))
	} else if got != want {
		t.Error("docs/proof.md differs from the scenarios and mutants; go test ./internal/interleave -run Page -update writes it")
	}
	for _, s := range suites {
		for _, m := range s.mutants {
			if !slices.ContainsFunc(s.scenarios, func(sc *scenario) bool { return sc.name == m.by }) {
				t.Errorf("mutant %q names the scenario %q, which there is not", m.name, m.by)
			}
		}
	}
}

// within replaces what is between the marks of a table.
func within(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("docs/proof.md has no marks of the table %s", name)
	}
	return before + begin + table + end + after
}

func scenarioTable() string {
	var b strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&b, "\n**%s**\n\n| scenario | sessions |\n|---|---|\n", s.title)
		for _, sc := range s.scenarios {
			var roles []string
			for _, r := range sc.roles {
				text := r.session
				if r.cuts > 0 {
					text += " (a cut connection)"
				}
				roles = append(roles, text)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", sc.name, strings.Join(roles, ", "))
		}
	}
	return b.String() + "\n"
}

func mutantTable() string {
	var b strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&b, "\n**%s**\n\n| statement: change | killed by |\n|---|---|\n", s.title)
		for _, m := range s.mutants {
			fmt.Fprintf(&b, "| %s | %s |\n", m.name, m.by)
		}
	}
	return b.String() + "\n"
}
