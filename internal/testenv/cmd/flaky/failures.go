package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output"`
}

// mostOutput limits the kept end of a test's output.
const mostOutput = 4 << 10

// read returns what failed, with the end of its output: tests without those that
// failed only for a subtest, and packages that failed without a test.
func read(in io.Reader) map[string]string {
	failed, output := map[string]string{}, map[string]string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			name := strings.TrimSuffix(e.Package+" "+e.Test, " ")
			switch e.Action {
			case "output":
				text := output[name] + e.Output
				output[name] = text[max(len(text)-mostOutput, 0):]
			case "fail":
				failed[name] = output[name]
			}
			if e.Action == "pass" || e.Action == "skip" || e.Action == "fail" {
				delete(output, name)
			}
		}
		if err != nil {
			break
		}
	}
	maps.DeleteFunc(failed, func(name, _ string) bool {
		for other := range failed {
			if strings.HasPrefix(other, name+"/") || !strings.Contains(name, " ") && strings.HasPrefix(other, name+" ") {
				return true
			}
		}
		return false
	})
	return failed
}

// failures are those of all runs.
type failures struct {
	count map[string]int
	first map[string]string // output of the first one
}

func newFailures() *failures {
	return &failures{count: map[string]int{}, first: map[string]string{}}
}

func (f *failures) add(failed map[string]string) {
	for name, output := range failed {
		if f.count[name]++; f.count[name] == 1 {
			f.first[name] = output
		}
	}
}

// print lists the failures, the most frequent first, with the output of one each.
func (f *failures) print(out io.Writer) {
	if len(f.count) == 0 {
		fmt.Fprintln(out, "nothing failed")
		return
	}
	names := slices.SortedFunc(maps.Keys(f.count), func(a, b string) int {
		if n := f.count[b] - f.count[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		fmt.Fprintf(out, "\n--- %s\n%s", name, f.first[name])
	}
	fmt.Fprintln(out, "\nfailed how often:")
	for _, name := range names {
		fmt.Fprintf(out, "%4d  %s\n", f.count[name], name)
	}
}
