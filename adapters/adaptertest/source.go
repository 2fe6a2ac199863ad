package adaptertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// SourceHarness is a source under test and the table that it reads, empty at
// the beginning.
type SourceHarness struct {
	// Source reads the table. The suite closes it.
	Source adapters.OperatorSource

	// Insert writes the rows in their order, in one transaction. Values that the
	// database itself sets (position, slot, created at) are ignored. It may be
	// called concurrently.
	Insert func(t *testing.T, rows ...adapters.Row)

	// InsertBroken writes a row of the group that cannot be decoded. Nil where
	// the table cannot hold one.
	InsertBroken func(t *testing.T, group string)
}

// Source checks that a source keeps the contract of [adapters.Source]. The tests
// are subtests of t and run in parallel, each on a table of its own.
func Source(t *testing.T, setup func(t *testing.T) SourceHarness) {
	for name, test := range map[string]func(*testing.T, SourceHarness){
		"RowsAreWhole":             testRowsAreWhole,
		"G1_EmptyPayloads":         testEmptyPayloads,
		"EmptyTable":               testEmptyTable,
		"G2_OrderAndLimits":        testOrderAndLimits,
		"G1_PagingLosesNothing":    testPagingLosesNothing,
		"G1_ConcurrentWriters":     testConcurrentWriters,
		"G1_BrokenRowsAreYielded":  testBrokenRows,
		"StartKinds":               testStartKinds,
		"Until":                    testUntil,
		"TwoReadsOfOneSlot":        testTwoReadsOfOneSlot,
		"G6_LaggardDelaysNobody":   testLaggardDelaysNobody,
		"CursorsAreValid":          testCursorsAreValid,
		"G7_StopsWhenNothingFits":  testStopsWhenNothingFits,
		"G7_TooLargeIsNotLoaded":   testTooLarge,
		"FetchEndsWithItsContext":  testFetchCancelled,
		"NoRowsForSlotsNotAskedOf": testOnlyAskedSlots,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			t.Cleanup(func() {
				if err := h.Source.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test(t, h)
		})
	}
}

// event is a row of a group; n identifies it.
func event(group string, n int) adapters.Row {
	return adapters.Row{
		ID: fmt.Sprintf("%s-%d", group, n), Type: "suite.event", Group: group,
		Payload: fmt.Appendf(nil, `{"n": %d,  "g":"%s"}`, n, group),
	}
}

// events are n rows, spread over the groups g0, g1, ... and, every tenth,
// without a group.
func events(n, groups int) []adapters.Row {
	rows := make([]adapters.Row, n)
	for i := range rows {
		group := fmt.Sprintf("g%d", i%groups)
		rows[i] = event(group, i)
		if i%10 == 9 {
			rows[i].Group = ""
		}
	}
	return rows
}

// position has a cursor for every slot of a source.
type position [adapters.Slots]adapters.Cursor

// startAt is the same start for every slot.
func startAt(t *testing.T, s adapters.OperatorSource, start adapters.Start) position {
	t.Helper()
	c, err := s.Start(t.Context(), start)
	if err != nil {
		t.Fatalf("start at %+v: %v", start, err)
	}
	var p position
	for i := range p {
		p[i] = c
	}
	return p
}

func beginning(t *testing.T, s adapters.OperatorSource) position {
	t.Helper()
	return startAt(t, s, adapters.Start{Kind: adapters.StartBeginning})
}

// reads asks for every slot.
func (p *position) reads(limit int) []adapters.Read {
	reads := make([]adapters.Read, len(p))
	for slot := range p {
		reads[slot] = adapters.Read{Slot: slot, From: p[slot], Limit: limit}
	}
	return reads
}

// fetch fetches all slots once, moves the position and checks what holds for
// every fetch. drained reports whether nothing was left.
func (p *position) fetch(t *testing.T, s adapters.OperatorSource, limit int) (rows []*adapters.Row, drained bool) {
	t.Helper()
	rows, results := fetch(t, s, p.reads(limit))
	drained = true
	for slot, result := range results {
		p[slot] = result.Next
		drained = drained && result.Drained
	}
	return rows, drained
}

// fetch runs the reads and checks order, limits and slots.
func fetch(t *testing.T, s adapters.OperatorSource, reads []adapters.Read) ([]*adapters.Row, []adapters.ReadResult) {
	t.Helper()
	var rows []*adapters.Row
	counts := make([]int, len(reads))
	read := 0
	var last *adapters.Row
	results, err := s.Fetch(t.Context(), reads, func(i int, row *adapters.Row) bool {
		if i < read {
			t.Errorf("read %d was answered after read %d", i, read)
		}
		if i != read {
			read, last = i, nil
		}
		if row.Slot != reads[i].Slot {
			t.Errorf("a row of slot %d came for slot %d", row.Slot, reads[i].Slot)
		}
		if last != nil && last.Late == row.Late && row.Position <= last.Position {
			t.Errorf("position %d came after %d", row.Position, last.Position)
		}
		last = row
		counts[i]++
		rows = append(rows, row)
		return true
	})
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	if len(results) != len(reads) {
		t.Fatalf("%d results for %d reads", len(results), len(reads))
	}
	for i, n := range counts {
		if n > reads[i].Limit {
			t.Errorf("%d rows for a limit of %d", n, reads[i].Limit)
		}
		if n == 0 && !results[i].Drained && results[i].Next == reads[i].From {
			t.Errorf("read %d made no progress and is not drained", i)
		}
	}
	return rows, results
}

// drain fetches until nothing is left.
func (p *position) drain(t *testing.T, s adapters.OperatorSource, limit int) []*adapters.Row {
	t.Helper()
	var all []*adapters.Row
	for {
		rows, drained := p.fetch(t, s, limit)
		all = append(all, rows...)
		if drained {
			return all
		}
	}
}

// crash fetches and takes only the first few rows, as a process that ends; the
// position then follows from the rows taken.
func (p *position) crash(t *testing.T, s adapters.OperatorSource, limit, taken int) []*adapters.Row {
	t.Helper()
	var rows []*adapters.Row
	reads := p.reads(limit)
	results, err := s.Fetch(t.Context(), reads, func(i int, row *adapters.Row) bool {
		if len(rows) == taken {
			return false
		}
		rows = append(rows, row)
		p[i] = row.After()
		return true
	})
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	if results != nil && len(rows) == taken {
		for i := range results { // all rows fitted after all
			p[i] = results[i].Next
		}
	}
	return rows
}

// wantIDs requires each row of want once, and each group's in the order of want.
func wantIDs(t *testing.T, got []*adapters.Row, want []adapters.Row) {
	t.Helper()
	byGroup := map[string][]string{}
	for _, row := range got {
		byGroup[row.Group] = append(byGroup[row.Group], row.ID)
	}
	wanted := map[string][]string{}
	for i := range want {
		wanted[want[i].Group] = append(wanted[want[i].Group], want[i].ID)
	}
	for _, ids := range []map[string][]string{byGroup, wanted} {
		slices.Sort(ids[""]) // no order among those without a group
	}
	for group, ids := range wanted {
		if !slices.Equal(byGroup[group], ids) {
			t.Errorf("group %q: got %d rows %.200q, want %d rows %.200q", group, len(byGroup[group]), byGroup[group], len(ids), ids)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d rows, want %d", len(got), len(want))
	}
}

func testPagingLosesNothing(t *testing.T, h SourceHarness) {
	seed := rand.Uint64() //nolint:gosec // page sizes, not secrets
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a failure can be repeated by its seed
	want := events(600, 23)
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(90))
		h.Insert(t, rest[:n]...)
		rest = rest[n:]
	}
	p := beginning(t, h.Source)
	var got []*adapters.Row
	for drained := false; !drained; {
		limit := 1 + random.IntN(40)
		if random.IntN(3) == 0 {
			got = append(got, p.crash(t, h.Source, limit, random.IntN(30))...)
			continue
		}
		var rows []*adapters.Row
		rows, drained = p.fetch(t, h.Source, limit)
		got = append(got, rows...)
	}
	wantIDs(t, got, want)
}

func testFetchCancelled(t *testing.T, h SourceHarness) {
	h.Insert(t, events(5, 2)...)
	p := beginning(t, h.Source)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Source.Fetch(ctx, p.reads(10), func(int, *adapters.Row) bool { return true }); err == nil {
		t.Error("a fetch with a cancelled context succeeded")
	}
	wantIDs(t, p.drain(t, h.Source, 10), events(5, 2))
}
