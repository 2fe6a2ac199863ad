package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
)

func TestRecordsReplaceThoseOfTheSameScenarioAndServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.ndjson")
	machine := measure.Machine{Date: "today", Commit: "abc", Postgres: "18.0", Settings: map[string]string{"fsync": "on"}, Libraries: "those of the commit"}
	write := func(server, scenario string, rate float64) {
		t.Helper()
		r := report{Command: "go run ./bench", Server: server, Machine: machine, Scenarios: []outcome{{Name: scenario, Results: []result{
			{Peer: "outrider", With: "warm", Rows: 1000, Measured: []quantity{{Name: rateFigure, Unit: "msgs/s", Median: rate, Runs: []float64{rate, rate}}}},
		}}}}
		if err := r.writeRecords(file); err != nil {
			t.Fatal(err)
		}
	}
	write("18", "flat", 1)
	write("18", "drain", 123456.78)
	write(packagedPostgres, "drain", 3)
	write("18", "flat", 4)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"scenario":"drain","server":"distribution","peer":"outrider","with":"warm","rows":1000,"figures":[{"name":"rate","unit":"msgs/s","median":3,"runs":[3,3]}],` +
		`"command":"go run ./bench","date":"today","commit":"abc","hardware":"","system":"","postgres":"18.0","settings":{"fsync":"on"},"kafka":""}`
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 3 || lines[0] != want || !strings.Contains(lines[1], `"median":123500,"runs":[123500,123500]`) || !strings.Contains(lines[2], `"median":4`) {
		t.Errorf("got\n%s", text)
	}
	if err := os.WriteFile(file, []byte("{}\nno JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&report{}).writeRecords(file); err == nil || !strings.Contains(err.Error(), "results.ndjson:2") {
		t.Errorf("got %v", err)
	}
}

func TestRecordsOfTwoBuildsHaveTheirRatios(t *testing.T) {
	t.Parallel()
	r := report{Scenarios: []outcome{{Name: "drain", Builds: []string{"abc", "working tree"}, Results: testPairs(), Compared: compareBuilds(testPairs())}}}
	records := r.records()
	if len(records) != 2 || len(records[0].Figures) != 0 || len(records[0].Ratios) != 2 || records[0].Builds[0] != "abc" {
		t.Errorf("got %+v", records)
	}
	text, err := json.Marshal(records[0])
	if err != nil || !bytes.Contains(text, []byte(`"median_ratio":1.1,"lowest_ratio":1.1,"highest_ratio":1.1,"verdict":"better"`)) {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestEveryFigureOfARunIsRecordedWithItsUnit(t *testing.T) {
	t.Parallel()
	run := sample{rate: 10, cpu: 2, peak: 3 << 20, p50: time.Millisecond, p99: 2 * time.Millisecond}
	run.figure("settle (us/msg)", 5)
	run.figure("instances with lanes", 3)
	other := run
	other.rate, other.p50 = 20, 0 // not measured in this run
	got, err := json.Marshal(collect([]sample{run, other}))
	want := `[{"name":"rate","unit":"msgs/s","median":15,"runs":[10,20]},{"name":"p99","unit":"ms","median":2,"runs":[2,2]},` +
		`{"name":"processor time","unit":"us/msg","median":2,"runs":[2,2]},{"name":"peak memory","unit":"MiB","median":3,"runs":[3,3]},` +
		`{"name":"instances with lanes","median":3,"runs":[3,3]},{"name":"settle","unit":"us/msg","median":5,"runs":[5,5]}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestRounding(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]float64{0: 0, 123456: 123500, 0.123456: 0.1235, -1.23456: -1.235, 1: 1, 999.96: 1000} {
		if got := rounded(v); got != want {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
	}
}
