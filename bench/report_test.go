package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/bench/measure"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{0: nil, 2: {2}, 3: {9, 1, 3}, 2.5: {4, 1, 2, 3}} {
		if got := median(values); got != want {
			t.Errorf("of %v: got %v, want %v", values, got, want)
		}
	}
}

// testReport is a possible report of two scenarios.
func testReport() *report {
	drain := []result{
		{Peer: "floor", About: "a loop", Rows: 1000, Rates: []float64{200, 210, 190}, Rate: 200, CPU: 2, Peak: 30 << 20},
		{Peer: "outrider", About: "ours", Rows: 1000, Rates: []float64{120, 130, 110}, Rate: 120, CPU: 5.5, Peak: 40 << 20},
		{Peer: "stock", About: "theirs", Rows: 100, Rates: []float64{3, 3, 4}, Rate: 3, CPU: 90},
	}
	flat := []result{{Peer: "outrider", About: "ours", Rows: 1000, Rates: []float64{100}, Rate: 100}, {Peer: "outrider", About: "ours", Rows: 9000, Rates: []float64{95}, Rate: 95}}
	return &report{Command: "go run ./bench", Server: usualPostgres, Machine: measure.Machine{Date: "2026-11-27", Commit: "abc", Postgres: "15.18",
		Settings: map[string]string{"shared_buffers": "128MB", "fsync": "on"}, Kafka: "v3.9", Hardware: "a processor", System: "Linux", Libraries: "pgx v5"}, Scenarios: []outcome{
		{Name: "drain", Title: "Draining", Results: drain, Remarks: scenarios[0].remarks(drain)},
		{Name: "flat", Title: "Flat", Results: flat, Remarks: scenarios[1].remarks(flat)},
	}}
}

func TestDocsAreWrittenBetweenTheMarksOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	page := "# By hand\n<!-- bench:drain: written by `go run ./bench -write`, do not edit -->\nold figures\n<!-- /bench:drain -->\nbetween\n" +
		"<!-- bench:flat: written by `go run ./bench -write`, do not edit -->\n<!-- /bench:flat -->\nthe end\n"
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	var first string
	for range 2 { // the second time replaces what the first has written
		if err := testReport().writeDocs(file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		} else if first != string(text) {
			t.Errorf("the second time the file differs:\n%s", text)
		}
	}
	for _, want := range []string{
		"# By hand\n", "\nbetween\n", "\nthe end\n", "Measured with `go run ./bench`",
		"| outrider | 1000 | 3 | 120 | 110 to 130 | 5.50 | 40 |", "| stock | 100 | 3 | 3 | 3 to 4 | 90.00 | unknown |",
		"- outrider reaches 60% of the floor.", "40 times as many", "stock was given 100 rows instead of 1000", "\nMade 2026-11-27 at commit abc. PostgreSQL 15.18 with fsync on, shared_buffers 128MB; Kafka v3.9; a processor; Linux; pgx v5.\n",
		"With a backlog of 9000 rows outrider reaches 95% of its rate with 1000; the aim is within 10%.",
		"How fast a backlog of the own table", "make bench BENCHFLAGS='-scenario flat'", "![Throughput by backlog](plots/flat.svg)",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is missing in\n%s", want, first)
		}
	}
	if strings.Contains(first, "old figures") {
		t.Errorf("old figures are still there:\n%s", first)
	}
}

func TestDocsHaveTheFiguresOfTheDistributionBeside(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	page := "<!-- bench:drain: written by `go run ./bench -write`, do not edit -->\nusual figures\n<!-- /bench:drain -->\nafter\n"
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	r := testReport()
	r.Server, r.Scenarios = packagedPostgres, r.Scenarios[:1]
	for range 2 { // the second time replaces what the first has written
		if err := r.writeDocs(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{"usual figures\n<!-- /bench:drain -->\n\n<!-- bench:drain-distribution: written", "| outrider | 1000 | 3 | 120 |",
		"PostgreSQL 15.18 with fsync on, shared_buffers 128MB; Kafka v3.9; a processor; Linux; pgx v5.", "<!-- /bench:drain-distribution -->\nafter\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), plotFolder)); !os.IsNotExist(err) || strings.Contains(got, "plots/") {
		t.Errorf("plots are those of the usual server: %v", err)
	}
}

func TestDocsWithoutMarksAreLeftAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	for _, page := range []string{"no marks\n", "<!-- bench:drain: written by `go run ./bench -write`, do not edit -->\n"} {
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := testReport().writeDocs(file); err == nil || !strings.Contains(err.Error(), "<!-- /bench:drain -->") {
			t.Errorf("got %v", err)
		}
		if text, _ := os.ReadFile(file); string(text) != page {
			t.Errorf("the file became %q", text)
		}
	}
	if err := testReport().writeDocs(filepath.Join(t.TempDir(), "none.md")); err == nil || !strings.Contains(err.Error(), "root of the repository") {
		t.Errorf("got %v", err)
	}
}

// The repository's own page has a place for every scenario.
func TestDocsOfTheRepositoryHaveTheMarks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", docsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		if _, err := replace(page, s.name, "new"); err != nil {
			t.Errorf("%s %v", docsFile, err)
		}
	}
}

func TestRemarksTellWhatTroubleCosts(t *testing.T) {
	t.Parallel()
	got := strings.Join(compareNeighbours([]result{
		{With: "1000 msgs/s, all well", P99: 10}, {With: "1000 msgs/s, 1 group poisoned", P99: 10.5},
		{With: "backlog, all well", Rate: 1000}, {With: "backlog, 1 of 2 destinations hangs", Rate: 970},
	}), "\n")
	if want := "1 group poisoned: the p99 of other messages is +5% compared with no fault; the aim is below 10%.\n" +
		"1 of 2 destinations hangs: the throughput of other messages is 97% of that with no fault; the aim is 95%."; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
