package router

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// page is what one slot of a global read yielded: positions, negative ones of
// late rows.
type page struct {
	rows    []int64
	full    bool  // more rows are behind
	lateCut bool  // more late rows are behind
	upto    int64 // how far it was read, when that is not its last row
}

// known is how far a page that was cut was read.
func (p *page) known() int64 {
	if p.upto == 0 && len(p.rows) > 0 {
		last := p.rows[len(p.rows)-1]
		return max(last, -last)
	}
	return p.upto
}

// merged runs globalRead.merge and returns positions and incomplete slots.
func merged(pages ...page) (positions []int64, incomplete []int) {
	g := &globalRead{}
	for i := range outbox.Slots {
		g.results[i] = outbox.ReadResult{Drained: true, Next: outbox.Cursor{Snapshot: "S2"}}
	}
	for i, p := range pages {
		for _, pos := range p.rows {
			g.rows[i] = append(g.rows[i], &outbox.Row{Slot: i, Position: max(pos, -pos), Late: pos < 0})
		}
		g.results[i].Drained = !p.full && !p.lateCut
		g.results[i].Next.Position = p.known()
		if p.lateCut {
			g.results[i].Next = outbox.Cursor{Snapshot: "S1", Window: "S2", Paged: p.known()}
		}
	}
	rows, complete := g.merge()
	for _, row := range rows {
		positions = append(positions, row.Position)
	}
	for i, ok := range complete {
		if !ok {
			incomplete = append(incomplete, i)
		}
	}
	return positions, incomplete
}

func TestGlobalMerge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pages      []page
		want       []int64
		incomplete []int
	}{
		"nothing":                                   {nil, nil, nil},
		"by position":                               {[]page{{rows: []int64{2, 5}}, {rows: []int64{1, 3, 6}}, {rows: []int64{4}}}, []int64{1, 2, 3, 4, 5, 6}, nil},
		"a full page ends what is known":            {[]page{{rows: []int64{2, 5}, full: true}, {rows: []int64{1, 3, 6, 9}}}, []int64{1, 2, 3, 5}, []int{1}},
		"the lowest of full pages":                  {[]page{{rows: []int64{2, 8}, full: true}, {rows: []int64{1, 3}, full: true}}, []int64{1, 2, 3}, []int{0}},
		"late ones first":                           {[]page{{rows: []int64{-4, 7}}, {rows: []int64{6}}, {rows: []int64{-2}}}, []int64{2, 4, 6, 7}, nil},
		"late ones do not end at a full fresh page": {[]page{{rows: []int64{-9, 10}, full: true}, {rows: []int64{-8, 12}}}, []int64{8, 9, 10}, []int{1}},
		"a full late page keeps fresh ones back":    {[]page{{rows: []int64{-2, -4}, lateCut: true}, {rows: []int64{-3, -6, 8}}, {rows: []int64{9}}}, []int64{2, 3, 4}, []int{1, 2}},
		"an open window without rows":               {[]page{{lateCut: true, upto: 3}, {rows: []int64{-3}}}, []int64{3}, nil},
		"an open window ends before others":         {[]page{{lateCut: true, upto: 4}, {rows: []int64{-3, -5}}}, []int64{3}, []int{1}},
		"a slot that was read less far":             {[]page{{full: true, upto: 4}, {rows: []int64{3, 5}}, {rows: []int64{2}}}, []int64{2, 3}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, incomplete := merged(tt.pages...)
			if !slices.Equal(got, tt.want) || !slices.Equal(incomplete, tt.incomplete) {
				t.Errorf("got %v, incomplete %v; want %v, %v", got, incomplete, tt.want, tt.incomplete)
			}
		})
	}
}

// order returns the positions in order of arrival.
func (r *rig) order() []string {
	var out []string
	for _, msg := range r.dest.got {
		out = append(out, msg.Metadata[outbox.MetaPosition])
	}
	return out
}

func positions(n int) (out []string) {
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return out
}

func TestG2_GlobalOrderAcrossSlots(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		global := func(rt *Route) { rt.Order, rt.Window = outbox.OrderGlobal, 32 }
		r.fill(30, 10)
		r.dest.setFail(flaky(errInjected))
		r.start(r.route(global))
		r.await(150)
		r.stop()
		r.start(r.route(global))
		r.await(300)
		r.stop()
		if got := r.order(); !slices.Equal(got, positions(300)) {
			t.Errorf("order of arrival: %v", got)
		}
	})
}

// While something is parked nothing more is read, so that it need not be
// parked behind it.
func TestG2_GlobalParkedBlocksReading(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(once("g1-0", outbox.Transient(errInjected, time.Minute)))
		r.fill(4, 50)
		r.start(r.route(func(rt *Route) { rt.Order, rt.Window = outbox.OrderGlobal, 16 }))
		time.Sleep(30 * time.Second)
		if n := len(r.parked()); n == 0 || n > 16 || r.dest.count() != 1 {
			t.Errorf("%d are parked and %d delivered, want at most a window, and 1", n, r.dest.count())
		}
		r.await(200)
		r.stop()
		if got := r.order(); !slices.Equal(got, positions(200)) {
			t.Errorf("order of arrival: %v", got)
		}
		r.wantParked()
	})
}

// Global order keeps the rows of a whole poll until they are merged.
func TestG7_GlobalOrderKeepsNoMoreThanTheBudget(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.config.Memory = 4 << 20
		const n, size = 400, 1 << 20
		payload := make([]byte, size)
		for i := range n {
			r.source.add(&outbox.Row{ID: fmt.Sprint("m", i), Type: "t", Group: fmt.Sprint("g", i), Payload: payload, CreatedAt: time.Now()})
		}
		src := &counted{memSource: r.source}
		r.start(r.route(func(rt *Route) { rt.Source, rt.Order = src, outbox.OrderGlobal }))
		r.await(n)
		r.stop()
		if src.most > 4+outbox.Slots {
			t.Errorf("%d rows of 1 MiB were kept of one fetch, with 4 MiB of memory", src.most)
		}
	})
}

// counted notes the most rows that were taken of one fetch.
type counted struct {
	*memSource
	most int
}

func (c *counted) Fetch(ctx context.Context, reads []outbox.Read, take func(int, *outbox.Row) bool) ([]outbox.ReadResult, error) {
	n := 0
	defer func() { c.most = max(c.most, n) }()
	return c.memSource.Fetch(ctx, reads, func(i int, row *outbox.Row) bool {
		ok := take(i, row)
		if ok {
			n++
		}
		return ok
	})
}
