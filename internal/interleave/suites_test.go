package interleave_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// suites are scenarios of one kind of tables in one database, with mutants of their statements.
var suites = []suite{
	{"PostgreSQL: Outrider's own table, its state store, deliveries in a transaction", logScenarios, logMutants, logDatabase, logWorld},
	{"PostgreSQL: settling beside an old snapshot", asideScenarios, asideMutants, logDatabase, asideWorld},
	{"PostgreSQL: a table with partitions", partScenarios, partMutants, partDatabase, logWorld},
	{"PostgreSQL: REPEATABLE READ by default", repeatableLogs, repeatableMutants, repeatable(logDatabase), logWorld},
	{"PostgreSQL: deliveries into an outbox table", tableScenarios, tableMutants, claimlessDatabase, tableWorld},
	{"PostgreSQL: jobs of River in the transaction that settles", riverScenarios, riverMutants, riverDatabase, riverWorld},
	{"PostgreSQL: queue tables, REPEATABLE READ by default", repeatableQueues, repeatableQueueMutants, repeatable(queueDatabase), queueWorld},
	{"PostgreSQL: queue tables", queueScenarios, queueMutants, queueDatabase, queueWorld},
	{"PostgreSQL: queue tables, deliveries in the transaction that settles", queueTxScenarios, queueTxMutants, queueTxDatabase, queueTxWorld},
	{"PostgreSQL: many rows of a queue", manyScenarios, manyMutants, queueDatabase, queueWorld},
	{"PostgreSQL: queue tables without claims, rows from memory", claimlessScenarios, claimlessMutants, claimlessDatabase, claimlessWorld},
	{"MariaDB: the state store", stateScenarios, mariadbStateMutants, mariadbDatabase, mariadbStateWorld},
	{"MariaDB: queue tables", queueScenarios, mariadbQueueMutants, mariadbDatabase, mariadbQueueWorld},
}

type suite struct {
	title     string
	scenarios []*scenario
	mutants   []*mutant
	database  func(t *testing.T) (url string)
	open      func(t *testing.T, url string, m *mutant) *world
}

const (
	// shareVariable says how many interleavings of each scenario are run: a number, or all.
	shareVariable = "OUTRIDER_INTERLEAVE"

	// briefShare is how many without it: enough to see that the scenarios work.
	briefShare = 3

	// allMost bounds those of one scenario.
	allMost = 5_000

	// mutantShare is how many a mutant has to survive at least.
	mutantShare = 150

	// mutantsAtOnce is how many mutants of a suite are tried at once: each waits for the server most of the time.
	mutantsAtOnce = 3
)

// briefly reports whether only a few interleavings are wanted.
func briefly() bool { return os.Getenv(shareVariable) == "" }

// shareOf is how many interleavings of each scenario are run; 0: all.
func shareOf(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv(shareVariable); text {
	case "":
		return briefShare
	case "all":
		return 0
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			t.Fatalf("%s is %q: neither a number of interleavings nor all", shareVariable, text)
		}
		return n
	}
}

// TestInterleavings runs the share of each scenario.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for _, s := range suites {
		t.Run(s.title, func(t *testing.T) {
			t.Parallel()
			w := s.open(t, s.database(t), nil)
			for _, sc := range s.scenarios {
				t.Run(sc.name, func(t *testing.T) {
					var err error
					e := &explored{}
					if n := shareOf(t); n > 0 {
						err = e.sample(t.Context(), w, sc, n)
					} else if err = e.explore(t.Context(), w, sc, allMost); err == nil && e.runs == allMost {
						err = e.sample(t.Context(), w, sc, allMost)
					}
					if t.Log(e); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestMutants runs the share of a scenario with each mutant, until it fails.
func TestMutants(t *testing.T) {
	t.Parallel()
	if briefly() {
		t.Skip("make interleave tries the mutants")
	}
	for _, s := range suites {
		t.Run(s.title, func(t *testing.T) {
			t.Parallel()
			urls := make(chan string, mutantsAtOnce)
			for range mutantsAtOnce {
				urls <- s.database(t)
			}
			for _, m := range s.mutants {
				t.Run(m.name, func(t *testing.T) {
					t.Parallel()
					url := <-urls
					t.Cleanup(func() { urls <- url })
					s.kill(t, m, url)
				})
			}
		})
	}
}

func (s *suite) kill(t *testing.T, m *mutant, url string) {
	t.Helper()
	i := slices.IndexFunc(s.scenarios, func(sc *scenario) bool { return sc.name == m.by })
	if i < 0 {
		t.Fatalf("it names the scenario %q, which there is not", m.by)
	}
	e := &explored{}
	err := e.sample(t.Context(), s.open(t, url, m), s.scenarios[i], max(shareOf(t), mutantShare))
	switch {
	case m.met.Load() == 0:
		t.Error("no statement has the text that the mutant changes: it is stale")
	case err == nil:
		t.Errorf("it survives %d interleavings of %q", e.runs, m.by)
	default:
		t.Logf("killed by interleaving %d of %q: %s", e.runs, m.by, strings.SplitN(err.Error(), "\n", 2)[0])
	}
}

var update = flag.Bool("update", false, "write the tables of docs/proof.md")

// TestThePageHasEachScenarioAndMutant compares the tables of the page with those that the tests run.
func TestThePageHasEachScenarioAndMutant(t *testing.T) {
	t.Parallel()
	const page = "../../docs/proof.md"
	text, err := os.ReadFile(page)
	must(t, err)
	var scenarios, mutants strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&scenarios, "\n**%s**\n\n| scenario | sessions |\n|---|---|\n", s.title)
		for _, sc := range s.scenarios {
			var roles []string
			for _, r := range sc.roles {
				roles = append(roles, r.session+strings.Repeat(" (a cut connection)", r.cuts))
			}
			fmt.Fprintf(&scenarios, "| %s | %s |\n", sc.name, strings.Join(roles, ", "))
		}
		fmt.Fprintf(&mutants, "\n**%s**\n\n| statement: change | killed by |\n|---|---|\n", s.title)
		for _, m := range s.mutants {
			fmt.Fprintf(&mutants, "| %s | %s |\n", m.name, m.by)
		}
	}
	want := within(t, within(t, string(text), "scenarios", scenarios.String()), "mutants", mutants.String())
	if *update && string(text) != want {
		must(t, os.WriteFile(page, []byte(want), 0o600))
	} else if string(text) != want {
		t.Error("docs/proof.md differs from the scenarios and mutants; go test ./internal/interleave -run Page -update writes it")
	}
}

// within replaces what is between the marks of a table.
func within(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "\n<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("docs/proof.md has no marks of the table %s", name)
	}
	return before + begin + table + end + after
}
