package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func testRowsAreWhole(t *testing.T, h SourceHarness) {
	full := adapters.Row{
		ID: "e-1", Type: "order.created", Group: "order-1", AggregateType: "order", AggregateID: "1", Tenant: "acme",
		Tags: map[string]string{"order_id": "1"}, Headers: map[string]string{"trace": "ä\n\"q\""},
		Payload:    []byte("{\"b\": 1,\n  \"a\":[1.0, \"\\u00e4 ü \\n\"]}"),
		OccurredAt: time.Date(2024, 2, 3, 4, 5, 6, 789000000, time.UTC),
	}
	binary := adapters.Row{ID: "e-2", Type: "blob", Group: "order-1", Payload: []byte("\x00\xff{\n\\x"), Binary: true}
	least := adapters.Row{ID: "e-3", Type: "least", Group: "order-1", Payload: []byte("null")}
	want := []adapters.Row{full, binary, least}
	h.Insert(t, want...)
	p := beginning(t, h.Source)
	rows := p.drain(t, h.Source, 10)
	if len(rows) != len(want) {
		t.Fatalf("got %d rows, want %d", len(rows), len(want))
	}
	for i, row := range rows {
		w := &want[i]
		if row.Err != nil {
			t.Errorf("row %s: %v", w.ID, row.Err)
		}
		if !bytes.Equal(row.Payload, w.Payload) || row.Binary != w.Binary {
			t.Errorf("row %s: payload %q binary %t, want %q %t", w.ID, row.Payload, row.Binary, w.Payload, w.Binary)
		}
		if row.ID != w.ID || row.Type != w.Type || row.Group != w.Group || row.AggregateType != w.AggregateType ||
			row.AggregateID != w.AggregateID || row.Tenant != w.Tenant {
			t.Errorf("got %+v, want %+v", row, w)
		}
		if !maps.Equal(row.Tags, w.Tags) || !maps.Equal(row.Headers, w.Headers) || !row.OccurredAt.Equal(w.OccurredAt) {
			t.Errorf("row %s: tags %v headers %v occurred at %v", w.ID, row.Tags, row.Headers, row.OccurredAt)
		}
		if row.CreatedAt.IsZero() || row.Page == nil || row.Late {
			t.Errorf("row %s: created at %v, page %v, late %t", w.ID, row.CreatedAt, row.Page, row.Late)
		}
	}
}

// testEmptyPayloads reads payloads without bytes: whatever is before them, they are
// empty, and not absent.
func testEmptyPayloads(t *testing.T, h SourceHarness) {
	empty := func(n int) adapters.Row {
		r := event("g", n)
		r.Payload, r.Binary = []byte{}, true
		return r
	}
	h.Insert(t, empty(0), empty(1), event("g", 2), empty(3))
	for _, limit := range []int{1, 10} { // a decoder's first row, and one behind others
		p := beginning(t, h.Source)
		rows := p.drain(t, h.Source, limit)
		if len(rows) != 4 {
			t.Fatalf("got %d rows, want 4", len(rows))
		}
		for i, row := range rows {
			if row.Err != nil {
				t.Errorf("row %s: %v", row.ID, row.Err)
			}
			if i != 2 && (row.Payload == nil || len(row.Payload) != 0 || !row.Binary) {
				t.Errorf("row %s: payload %#v, binary %t; want an empty one of bytes", row.ID, row.Payload, row.Binary)
			}
		}
	}
}

func testEmptyTable(t *testing.T, h SourceHarness) {
	p := beginning(t, h.Source)
	for range 2 {
		if rows, drained := p.fetch(t, h.Source, 10); len(rows) != 0 || !drained {
			t.Fatalf("an empty table yielded %d rows, drained %t", len(rows), drained)
		}
	}
	h.Insert(t, events(40, 7)...)
	wantIDs(t, p.drain(t, h.Source, 10), events(40, 7))
	if rows, drained := p.fetch(t, h.Source, 10); len(rows) != 0 || !drained {
		t.Fatalf("a table that was read yielded %d rows, drained %t", len(rows), drained)
	}
}

func testOrderAndLimits(t *testing.T, h SourceHarness) {
	want := events(120, 11)
	h.Insert(t, want[:80]...)
	h.Insert(t, want[80:]...)
	for _, limit := range []int{1, 7, 1000} {
		p := beginning(t, h.Source)
		wantIDs(t, p.drain(t, h.Source, limit), want)
	}
}

func testConcurrentWriters(t *testing.T, h SourceHarness) {
	const writers, each = 4, 40
	var want []adapters.Row
	var writing sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		rows := make([]adapters.Row, each)
		for i := range rows {
			rows[i] = event(fmt.Sprintf("writer%d", w), i)
		}
		want = append(want, rows...)
		writing.Go(func() {
			for i := 0; i < each; i += 2 {
				h.Insert(t, rows[i:i+2]...)
			}
		})
	}
	go func() {
		writing.Wait()
		close(done)
	}()
	p := beginning(t, h.Source)
	var got []*adapters.Row
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got = append(got, p.drain(t, h.Source, 5)...)
	}
	wantIDs(t, got, want)
}

func testBrokenRows(t *testing.T, h SourceHarness) {
	if h.InsertBroken == nil {
		t.Skip("the table cannot hold a row that cannot be decoded")
	}
	h.Insert(t, event("g", 1))
	h.InsertBroken(t, "g")
	h.Insert(t, event("g", 2))
	p := beginning(t, h.Source)
	rows := p.drain(t, h.Source, 1)
	if len(rows) != 3 {
		t.Fatalf("got %d rows, want 3", len(rows))
	}
	if rows[0].Err != nil || rows[2].Err != nil || rows[1].Err == nil {
		t.Fatalf("errors are %v, %v, %v; want the second row's only", rows[0].Err, rows[1].Err, rows[2].Err)
	}
	if rows[1].Group != "g" || rows[1].Position <= rows[0].Position || rows[1].Page == nil {
		t.Errorf("the broken row is %+v", rows[1])
	}
}

func testStartKinds(t *testing.T, h SourceHarness) {
	ctx := t.Context()
	if err := h.Source.Check(ctx); err != nil {
		t.Fatalf("check: %v", err)
	}
	if _, err := h.Source.Start(ctx, adapters.Start{Kind: "tomorrow"}); err == nil {
		t.Error("an unknown kind of start was accepted")
	}
	h.Insert(t, event("old", 0))
	first := beginning(t, h.Source)
	old := first.drain(t, h.Source, 10)[0]

	// Rows until one is a clear tick of the clock younger than the first.
	var young []adapters.Row
	var turn time.Time
	probe := startAt(t, h.Source, adapters.Start{Kind: adapters.StartEnd})
	eventually(t, "a row created later", func(context.Context) bool {
		h.Insert(t, event("young", len(young)))
		young = append(young, event("young", len(young)))
		row := probe.drain(t, h.Source, 10)[0]
		turn = row.CreatedAt
		return turn.Sub(old.CreatedAt) > 5*time.Millisecond
	})
	end := startAt(t, h.Source, adapters.Start{Kind: adapters.StartEnd})
	late := []adapters.Row{event("new", 0), event("new", 1)}
	h.Insert(t, late...)

	wantIDs(t, end.drain(t, h.Source, 10), late)
	fromTime := startAt(t, h.Source, adapters.Start{Kind: adapters.StartTime, Time: turn})
	wantIDs(t, fromTime.drain(t, h.Source, 10), append(young[len(young)-1:], late...))
	fromNow := startAt(t, h.Source, adapters.Start{Kind: adapters.StartTime, Time: time.Now().Add(time.Hour)})
	wantIDs(t, fromNow.drain(t, h.Source, 10), nil)
	again := beginning(t, h.Source)
	if n := len(again.drain(t, h.Source, 10)); n != 1+len(young)+len(late) {
		t.Errorf("%d rows from the beginning, want %d", n, 1+len(young)+len(late))
	}
}

func testUntil(t *testing.T, h SourceHarness) {
	// A bound is never older than the cursor, so both begin at one place.
	first := beginning(t, h.Source)
	before := events(60, 9)
	h.Insert(t, before...)
	shared := first
	shared.drain(t, h.Source, 100)
	after := make([]adapters.Row, 30)
	for i := range after {
		after[i] = event(fmt.Sprintf("g%d", i%9), 1000+i)
	}
	h.Insert(t, after...)

	for _, limit := range []int{1, 100} {
		p := first
		var got []*adapters.Row
		for drained := false; !drained; {
			reads := p.reads(limit)
			for slot := range reads {
				reads[slot].Until = &shared[slot]
			}
			rows, results := fetch(t, h.Source, reads)
			got = append(got, rows...)
			drained = true
			for slot, result := range results {
				p[slot] = result.Next
				drained = drained && result.Drained
			}
		}
		wantIDs(t, got, before)
		wantIDs(t, p.drain(t, h.Source, limit), after) // nothing was skipped by the bound
	}
}

func testTwoReadsOfOneSlot(t *testing.T, h SourceHarness) {
	h.Insert(t, event("g", 1), event("g", 2))
	p := beginning(t, h.Source)
	rows := p.drain(t, h.Source, 1)
	slot := rows[0].Slot
	start := beginning(t, h.Source)[slot]
	h.Insert(t, event("g", 3))
	got, results := fetch(t, h.Source, []adapters.Read{
		{Slot: slot, From: p[slot], Limit: 10},
		{Slot: slot, From: start, Limit: 2},
		{Slot: slot, From: start, Limit: 10},
	})
	var ids []string
	for _, row := range got {
		ids = append(ids, row.ID)
	}
	if want := "[g-3 g-1 g-2 g-1 g-2 g-3]"; fmt.Sprint(ids) != want {
		t.Fatalf("got %v, want %s", ids, want)
	}
	if got[0].Page.From != p[slot] || got[1].Page.From != start {
		t.Error("rows carry the page of another read")
	}
	rest, _ := fetch(t, h.Source, []adapters.Read{{Slot: slot, From: results[1].Next, Limit: 10}})
	if len(rest) != 1 || rest[0].ID != "g-3" {
		t.Errorf("behind a full read came %d rows", len(rest))
	}
}

// testLaggardDelaysNobody leaves one slot at the beginning of many rows
// while the others are at the end: they get new rows by the next fetch,
// whether the laggard takes few rows at a time or many.
func testLaggardDelaysNobody(t *testing.T, h SourceHarness) {
	backlog := make([]adapters.Row, 400)
	for i := range backlog {
		backlog[i] = event("slow", i)
	}
	h.Insert(t, backlog...)
	p := beginning(t, h.Source)
	slow := p.drain(t, h.Source, 1000)[0].Slot
	fast := ""
	for i := 0; fast == ""; i++ {
		group := fmt.Sprintf("fast%d", i)
		h.Insert(t, event(group, 0))
		if rows, _ := p.fetch(t, h.Source, 1000); rows[0].Slot != slow {
			fast = group
		}
	}
	h.Insert(t, event(fast, 1), event(fast, 2))
	for _, limit := range []int{1, 50} {
		reads := p.reads(50)
		reads[slow].From, reads[slow].Limit = beginning(t, h.Source)[slow], limit
		rows, _ := fetch(t, h.Source, reads)
		var got []string
		for _, row := range rows {
			if row.Group == fast {
				got = append(got, row.ID)
			}
		}
		if len(got) != 2 {
			t.Errorf("beside a laggard with a limit of %d came %v", limit, got)
		}
		if len(rows) != 2+limit {
			t.Errorf("%d rows in all, want %d", len(rows), 2+limit)
		}
	}
}

func testCursorsAreValid(t *testing.T, h SourceHarness) {
	first, err := h.Source.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Insert(t, events(30, 5)...)
	p := beginning(t, h.Source)
	for range 3 {
		p.fetch(t, h.Source, 1)
		for slot := range p {
			if err := h.Source.Validate(t.Context(), p[slot]); err != nil {
				t.Fatalf("slot %d: %v", slot, err)
			}
		}
	}
	if again, err := h.Source.Table(t.Context()); err != nil || again != first {
		t.Errorf("the table went from %q to %q, %v", first, again, err)
	}
	ahead := p[0]
	ahead.Position = 1 << 60
	if err := h.Source.Validate(t.Context(), ahead); !errors.Is(err, adapters.ErrWentBack) {
		t.Errorf("a cursor ahead of the table: %v, want an ErrWentBack", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Source.Validate(gone, p[0]); err == nil || adapters.IsInvalidCursor(err) {
		t.Errorf("a source that cannot be asked: %v, want an error that says nothing of the cursor", err)
	}
}
