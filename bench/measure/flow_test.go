package measure

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAFlowNumbersItsMessagesOnce(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 2, 4, 10, 1000} {
		f := NewFlow(FlowSpec{}, 2500, groups, 300)
		writer, seen := map[int]int{}, map[int]bool{}
		for w := range writersOf(groups) {
			last := map[int]int{}
			for m := range f.rowsOf(w) {
				n := f.number(w, m)
				if n <= 0 || n >= len(f.hashes) || seen[n] {
					t.Fatalf("%d groups: number %d of %d (again: %v)", groups, n, len(f.hashes), seen[n])
				}
				group := n % groups
				if by, ok := writer[group]; ok && by != w || n < last[group] {
					t.Fatalf("%d groups: message %d of group %d is written by %d, behind %d", groups, n, group, w, last[group])
				}
				seen[n], writer[group], last[group] = true, w, n
			}
		}
		if len(seen) != 2500 || f.Expected() != 2500 {
			t.Errorf("%d groups: %d messages, %d expected", groups, len(seen), f.Expected())
		}
	}
}

// wrote is a flow of which ten messages of two groups are committed.
func wrote(t *testing.T) (f *Flow, payloads [][]byte) {
	t.Helper()
	f = NewFlow(FlowSpec{}, 10, 2, 300)
	source := NewEvents(1, 2, 300)
	var numbers []int
	for w := range writersOf(2) {
		for m := range f.rowsOf(w) {
			numbers = append(numbers, f.number(w, m))
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		_, payload := source.Event(n)
		f.hashes[n].Store(f.hash(payload))
		f.committed[n].Store(f.now())
		payloads = append(payloads, payload)
	}
	return f, payloads
}

func TestAFlowCatchesWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(p [][]byte) [][]byte{
		"":                func(p [][]byte) [][]byte { return p },
		"lost 1":          func(p [][]byte) [][]byte { return p[1:] },
		"duplicates 1":    func(p [][]byte) [][]byte { return append(p, p[3]) },
		"out of order 1":  func(p [][]byte) [][]byte { p[0], p[2] = p[2], p[0]; return p },
		"foreign 1":       func(p [][]byte) [][]byte { return append(p, []byte(payloadStart+"3, changed")) },
		"lost 1, ":        func(p [][]byte) [][]byte { p[9] = []byte(payloadStart + "999999, "); return p },
		"duplicates 0, o": func(p [][]byte) [][]byte { return append(p, []byte("no message at all")) },
	} {
		f, payloads := wrote(t)
		for _, p := range change(payloads) {
			f.arrive(p)
		}
		err := f.Verify()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestAFlowLeavesOutWhoIsNotExpected(t *testing.T) {
	t.Parallel()
	f, payloads := wrote(t)
	all := f.Uncounted
	f.Uncounted = func(group int) bool { return group == 1 }
	for _, p := range payloads {
		if sequence(p)%2 == 0 {
			f.arrive(p)
		}
	}
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
	if n, _ := f.Received(); n != 5 || f.Expected() != 5 {
		t.Errorf("%d came, %d are expected", n, f.Expected())
	}
	f.Uncounted = all
	if err := f.Verify(); err == nil {
		t.Error("nobody noticed that a group is missing")
	}
}

func TestDelaysAreThoseAfterTheLead(t *testing.T) {
	t.Parallel()
	f := NewFlow(FlowSpec{Lead: time.Second}, 4, 1, 300)
	f.begun.Store(int64(time.Second))
	for n, d := range []struct{ committed, took int }{ // milliseconds
		{1500, 900}, {2500, 30}, {2600, 10}, {4000, -1},
	} {
		f.committed[n+1].Store(int64(time.Duration(d.committed) * time.Millisecond))
		f.arrived[n+1].Store(int64(time.Duration(d.committed+d.took) * time.Millisecond))
	}
	delays := f.Delays()
	if got := delays.delays; len(got) != 3 || got[0].at != 1500*time.Millisecond || got[2].took != 0 {
		t.Fatalf("got %v", got)
	}
	if p50, p99 := delays.Quantile(0.5), delays.Quantile(0.99); p50 != 10*time.Millisecond || p99 != 30*time.Millisecond {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	var points [][2]time.Duration
	delays.OverTime(1, time.Second, func(since, took time.Duration) { points = append(points, [2]time.Duration{since, took}) })
	if !slices.Equal(points, [][2]time.Duration{{0, 30 * time.Millisecond}, {2 * time.Second, 0}}) {
		t.Errorf("over time: %v", points)
	}
}
