package adaptertest

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

func testStopsWhenNothingFits(t *testing.T, h SourceHarness) {
	h.Insert(t, events(50, 3)...)
	p := beginning(t, h.Source)
	calls := 0
	results, err := h.Source.Fetch(t.Context(), p.reads(100), func(int, *adapters.Row) bool {
		calls++
		return calls < 4
	})
	if err != nil || results != nil || calls != 4 {
		t.Fatalf("after take returned false: %d calls, results %v, %v", calls, results, err)
	}
	wantIDs(t, p.drain(t, h.Source, 100), events(50, 3))
}

func testOnlyAskedSlots(t *testing.T, h SourceHarness) {
	h.Insert(t, events(100, 40)...)
	all := beginning(t, h.Source)
	want := map[int]int{}
	for _, row := range all.drain(t, h.Source, 100) {
		want[row.Slot]++
	}
	p := beginning(t, h.Source)
	asked := p.reads(100)[3:7]
	rows, _ := fetch(t, h.Source, asked)
	for _, row := range rows {
		want[row.Slot]--
	}
	for _, read := range asked {
		if want[read.Slot] != 0 {
			t.Errorf("slot %d: %d rows are missing", read.Slot, want[read.Slot])
		}
	}
	if _, results := fetch(t, h.Source, nil); len(results) != 0 {
		t.Errorf("no reads, %d results", len(results))
	}
}
